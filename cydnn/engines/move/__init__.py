"""Operations that move elements: slice, reshape, transpose, concatenate."""
