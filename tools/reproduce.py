"""``build_ptx.py --reproduce``: every image of ptx/ compiled again and compared. No image is written. Kernels
whose sources changed and whose images are the same get the new hash of their sources in the manifest.
"""
from __future__ import annotations

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor, as_completed

from assemble import progress
from contract import ContractError, check_entry
from packs import locked, read_manifest, write_manifest

SECTIONS = {"kernel": "kernels", "funcs": "functions"}


def compare(compiler, variant, target: str, src, image: dict):
    """Compile one image; ContractError where it is not the one of the manifest."""
    text = compiler.compile(variant, target, src)
    if variant.kind == "kernel":
        check_entry(text, variant)
    text = re.sub(r"(?m)^\.version .*$", f".version {image['version']}", text, count=1)
    if hashlib.sha256(text.encode()).hexdigest() != image["sha256"]:
        raise ContractError(f"{variant.name}: the image for {target} must be what {variant.source} compiles "
                            f"to; it differs. Build it with build_ptx.py --only {variant.name}")


def restamp(out, variants) -> int:
    """Say in the manifest that the images of these are made from the sources as they are; of how many that is
    news."""
    with locked(out):
        manifest, news = read_manifest(out), 0
        for variant in variants:
            rows = manifest[SECTIONS[variant.kind]]
            row = {**variant.contract, "images": rows[variant.name]["images"]}
            news += row != rows[variant.name]
            rows[variant.name] = row
        if news:
            write_manifest(out, manifest)
    return news


def reproduce(tree, compiler, out, jobs: int) -> list[str]:
    """Compare every image that is selected; the errors."""
    manifest, errors, wrong, todo = read_manifest(out), list(tree.errors), set(), []
    for variant in tree.variants:
        images = manifest[SECTIONS[variant.kind]].get(variant.name, {}).get("images", {})
        todo += [(variant, target, image) for target, image in images.items() if variant.allows(target)]
        if missing := [target for target in variant.targets if target not in images]:
            wrong.add(variant.name)
            errors.append(f"{variant.name} must have its images; got none for {', '.join(missing)}")
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(compare, compiler, variant, target, tree.src, image): variant
                   for variant, target, image in todo}
        for future in progress(as_completed(futures), len(todo)):
            if error := future.exception():
                if not isinstance(error, ContractError):
                    raise error
                wrong.add(futures[future].name)
                errors.append(str(error))
    news = restamp(out, [variant for variant in tree.variants if variant.name not in wrong])
    print(f"{len(todo)} images compiled, {len(tree.variants)} variants selected, {len(errors)} errors; "
          f"{news} variants have a new hash of their sources")
    return errors
