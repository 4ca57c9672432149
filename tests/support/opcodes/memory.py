"""The probes of moves, loads, stores, atomics and copies. A lane touches 16 bytes of its own,
in each space, so no order matters."""
from __future__ import annotations

import numpy as np

from .table import enter, expand
from .values import SIZE, hashed, operands, seed_of

TYPES = "b8|u8|s8|b16|u16|s16|b32|u32|s32|b64|u64|s64|f32|f64"
WORDS = ".reg .b32 %w<4>; ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%a0]; "
# space -> (its words, the declaration and address, the operand)
PLACES = {
    "global": ("global", "mov.u64 %o, %cell;", "%o"), "generic": ("", "mov.u64 %o, %cell;", "%o"),
    "shared": ("shared",
               ".shared .align 16 .b8 mem[2048]; mov.u32 %x, mem; mad.lo.u32 %x, %lane, 16, %x;", "%x"),
    "shared::cta": ("shared::cta",
                    ".shared .align 16 .b8 mem[2048]; mov.u32 %x, mem; mad.lo.u32 %x, %lane, 16, %x;", "%x"),
    "shared::cluster": (
        "shared::cluster",
        ".shared .align 16 .b8 mem[2048]; mov.u32 %x, mem; mad.lo.u32 %x, %lane, 16, %x;", "%x"),
    "local": ("local", ".local .align 16 .b8 mem[16]; mov.u64 %o, mem;", "%o"),
    "generic shared": ("", ".shared .align 16 .b8 mem[2048]; mov.u64 %o, mem; "
                           "mad.wide.u32 %o, %lane, 16, %o; cvta.shared.u64 %o, %o;", "%o"),
    "generic local": ("", ".local .align 16 .b8 mem[16]; mov.u64 %o, mem; cvta.local.u64 %o, %o;", "%o")}


def raw(count: int, seed: int) -> np.ndarray:
    """``count`` times 16 hashed bytes."""
    return hashed(seed, 2 * count).view(np.uint8).reshape(count, 16).copy().view("V16").reshape(-1)


def wide(type_: str) -> str:
    """The register a type is held in: bytes go to 32 bits, so that their extension is seen."""
    return "b32" if SIZE[type_] == 1 else type_


def dotted(*words) -> str:
    return ".".join(w for w in words if w)


def mem(name: str, text: str, outs, count=128, **more):
    """A probe whose only operand is 16 bytes of memory at %a0."""
    enter(name, text, ("b128",), tuple(outs), (raw(count, 1),), **more)


# ---- Registers ----

for opcode, found in expand("mov t:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64|pred"):
    enter(opcode, f"{opcode} %d0, %s0;", (found["t"],), (found["t"],),
          operands([found["t"]], seed_of(opcode), 128))
for big, small, n in (("b32", "b16", 2), ("b64", "b32", 2), ("b64", "b16", 4)):
    parts = lambda letter: ", ".join(f"%{letter}{i}" for i in range(n))
    values = [hashed(seed_of(big + small) + i, 128).astype(f"u{SIZE[small]}") for i in range(n)]
    enter(f"mov.{big} pack {n}", f"mov.{big} %d0, {{{parts('s')}}};", (small,) * n, (big,), values)
    enter(f"mov.{big} unpack {n}", f"mov.{big} {{{parts('d')}}}, %s0;", (big,), (small,) * n,
          [hashed(seed_of(big), 128).astype(f"u{SIZE[big]}")])
SPECIALS = ("tid.x", "ntid.x", "ntid.y", "ctaid.x", "nctaid.x", "nctaid.z", "laneid", "lanemask_eq",
            "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt", "clusterid.x", "nclusterid.x",
            "cluster_ctaid.x", "cluster_nctaid.x", "cluster_ctarank", "cluster_nctarank",
            "total_smem_size", "dynamic_smem_size")
enter("special registers", " ".join(f"mov.u32 %d{i}, %{s};" for i, s in enumerate(SPECIALS)), ("b32",),
      ("b32",) * len(SPECIALS), [hashed(7, 256).astype(np.uint32)])

# ---- Addresses ----

WHERE = (".shared .align 8 .b8 sh[16]; .local .align 8 .b8 lo[16]; .reg .u64 %g<3>; mov.u64 %g1, sh; "
         "cvta.shared.u64 %g1, %g1; mov.u64 %g2, lo; cvta.local.u64 %g2, %g2; mov.u64 %g0, %a0;")
for space in ("global", "shared", "shared::cta", "shared::cluster", "local", "param"):
    mem(f"isspacep.{space}",
        WHERE + " ".join(f"isspacep.{space} %d{i}, %g{i};" for i in range(3)), ("pred",) * 3)
for space in ("shared", "shared::cta", "shared::cluster", "local"):
    name = "lo" if space == "local" else "sh"
    mem(f"cvta.{space}",
        f".shared .align 8 .b8 sh[16]; .local .align 8 .b8 lo[16]; mov.u64 %o, {name}; add.u64 %o, %o, 8; "
        f"cvta.{space}.u64 %cell, %o; cvta.to.{space}.u64 %cell, %cell; sub.u64 %d0, %cell, %o;", ("b64",))
mem("cvta.global", "cvta.global.u64 %o, %a0; cvta.to.global.u64 %o, %o; sub.u64 %d0, %o, %a0;", ("b64",))
mem("mapa", ".shared .align 16 .b8 mem[16]; mov.u32 %x, mem; mapa.shared::cluster.u32 %y, %x, 0; "
            "setp.eq.u32 %d0, %lane, 0; @%d0 st.shared.u32 [%x], 77; bar.sync 0; "
            "ld.shared::cluster.u32 %d1, [%y]; .reg .u64 %g; cvt.u64.u32 %cell, %x; "
            "cvta.shared.u64 %o, %cell; mapa.u64 %g, %o, 0; ld.u32 %d2, [%g];", ("pred", "b32", "b32"))

# ---- Loads ----


def load(name, opcode, types, prefix="", address="[%a0]", registers=None):
    outs = registers or [wide(t) for t in types]
    places = ", ".join(f"%d{i}" for i in range(len(outs)))
    mem(name, f"{prefix} {opcode} {places if len(outs) == 1 else '{' + places + '}'}, {address};", outs)


for t in TYPES.split("|"):
    for vec in (1, 2, 4):
        if vec * SIZE[t] <= 16:
            form = "" if vec == 1 else f"v{vec}"
            for place, (words, declare, register) in PLACES.items():
                if place in ("global", "generic"):
                    load(f"ld {place} {form} {t}", dotted("ld", words, form, t), [t] * vec)
                elif place in ("shared", "local") or t == "u32":
                    prefix = (f"{WORDS} {declare} {dotted('st', words, 'v4', 'b32')} [{register}], "
                              "{%w0, %w1, %w2, %w3};")
                    load(f"ld {place} {form} {t}", dotted("ld", words, form, t), [t] * vec,
                         prefix, f"[{register}]")
for t in ("s8", "u8", "s16", "u16"):
    load(f"ld {t} to 64 bits", f"ld.global.{t}", [t], registers=["b64"])
load("ldu", "ldu.global.u32", ["u32"])
load("ldu v4", "ldu.global.v4.f32", ["f32"] * 4)
for order in ("weak", "volatile",
              *(f"{o}.{s}" for o in ("relaxed", "acquire") for s in ("cta", "cluster", "gpu", "sys"))):
    load(f"ld {order}", f"ld.{order}.global.b32", ["b32"])
for words in ("ca", "cg", "cs", "lu", "cv", "nc", "L1::evict_normal", "L1::evict_unchanged",
              "L1::evict_first", "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B",
              "L2::256B", "nc.L1::no_allocate.L2::128B"):
    load(f"ld {words}", f"ld.global.{words}.b32", ["b32"])

# ---- Stores: over bytes of EE, then all 16 bytes read back ----

FILL = "mov.u32 %y, 0xEEEEEEEE; "


def store(name, opcode, types, words="global", declare="mov.u64 %o, %cell;", register="%o"):
    values = ", ".join(f"%s{i}" for i in range(len(types)))
    back = dotted(words, "v4", "b32")
    given = values if len(types) == 1 else "{" + values + "}"
    text = f"{FILL} {declare} st.{back} [{register}], {{%y, %y, %y, %y}}; {opcode} [{register}], {given}; " \
           f"ld.{back} {{%d0, %d1, %d2, %d3}}, [{register}];"
    enter(name, text, tuple(wide(t) for t in types), ("b32",) * 4,
          [hashed(1 + i, 128).astype(f"u{SIZE[wide(t)]}") for i, t in enumerate(types)])


for t in TYPES.split("|"):
    for vec in (1, 2, 4):
        if vec * SIZE[t] <= 16:
            form = "" if vec == 1 else f"v{vec}"
            for place, (words, declare, register) in PLACES.items():
                if place in ("global", "generic", "shared", "local") or t == "u32":
                    store(f"st {place} {form} {t}", dotted("st", words, form, t),
                          [t] * vec, words, declare, register)
for words in ("weak.global", "volatile.global",
              *(f"{o}.{s}.global" for o in ("relaxed", "release") for s in ("cta", "cluster", "gpu", "sys")),
              "global.wb", "global.cg", "global.cs", "global.wt",
              *(f"global.L1::{e}"
                for e in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate"))):
    store(f"st {words}", f"st.{words}.b32", ["b32"])

# ---- Atomics: the old value and what memory holds afterwards ----

ATOMICS = ("add u32|s32|u64|f32|f64", "add noftz f16|f16x2|bf16|bf16x2", "min|max u32|s32|u64|s64",
           "and|or|xor b32|b64", "exch b32|b64", "cas b16|b32|b64", "inc|dec u32")
NAN64 = dict(rule=("nan",), note="the ISA does not say which payload a NaN of f64 has")


def atomic(name, opcode, type_, words, declare, register):
    returns, count, bits = name.startswith("atom"), 2 + (".cas." in opcode), 8 * SIZE[type_]
    space = dotted(words)
    given = ", ".join(f"%s{i}" for i in range(1, count))
    text = (f"{declare} {dotted('st', space)}.b{bits} [{register}], %s0; "
            f"{opcode} {'%d1, ' if returns else ''}[{register}], {given}; "
            f"{dotted('ld', space)}.b{bits} %d0, [{register}];")
    enter(name, text, (type_,) * count, (type_,) * (2 if returns else 1),
          operands((type_,) * count, seed_of(name), 512 if "f" in type_ else 256),
          **(NAN64 if type_ == "f64" else {}))


for kind in ("atom", "red"):
    for form in ATOMICS:
        if kind == "red" and form.split()[0] in ("exch", "cas"):
            continue
        for operation, _ in expand(form):
            for place in ("global", "shared", "generic"):
                words, declare, register = PLACES[place]
                atomic(f"{kind} {place} {operation}", dotted(kind, words, operation),
                       operation.split(".")[-1], words, declare, register)
    for place in ("shared::cta", "shared::cluster", "generic shared"):
        words, declare, register = PLACES[place]
        atomic(f"{kind} {place} add.u32", dotted(kind, words, "add.u32"), "u32", words, declare, register)
    for order, scope in ((o, s) for o in ("relaxed", "acquire", "release", "acq_rel")
                         for s in ("cta", "cluster", "gpu", "sys")):
        if kind == "atom" or order in ("relaxed", "release"):
            atomic(f"{kind} {order} {scope}", f"{kind}.{order}.{scope}.global.add.u32",
                   "u32", *PLACES["global"])
    for vec, t in (("v2", "f32"), ("v4", "f32"), ("noftz.v2", "f16"), ("noftz.v4", "bf16"),
                   ("noftz.v8", "f16"), ("noftz.v2", "bf16x2"), ("noftz.v4", "f16x2")):
        n, bits = int(vec[-1]), 8 * SIZE[t]
        old, new, given = (", ".join(f"%{letter}{i}" for i in range(at, at + n))
                           for letter, at in (("d", n), ("d", 0), ("s", n)))
        lines = ("".join(f"st.global.b{bits} [%cell+{i * bits // 8}], %s{i}; " for i in range(n))
                 + f"{kind}.global.add.{vec}.{t} "
                   f"{'{' + old + '}, ' if kind == 'atom' else ''}[%cell], {{{given}}}; "
                 + "".join(f"ld.global.b{bits} %d{i}, [%cell+{i * bits // 8}]; " for i in range(n)))
        pairs = [operands([t, t], seed_of(vec + t) + i, 512) for i in range(n)]
        enter(f"{kind} {vec}.{t}", lines, (t,) * 2 * n, (t,) * (2 * n if kind == "atom" else n),
              [p[0] for p in pairs] + [p[1] for p in pairs])
enter("atom of many lanes",
      ".shared .align 8 .b8 mem[8]; .reg .pred %q; setp.eq.u32 %q, %lane, 0; "
      "@%q st.shared.v2.u32 [mem], {5, 9}; bar.sync 0; atom.shared.add.u32 %x, [mem], %s0; "
      "red.shared.max.u32 [mem+4], %s0; bar.sync 0; ld.shared.v2.u32 {%d0, %d1}, [mem];", ("b32",),
      ("b32", "b32"), [hashed(9, 256).astype(np.uint32)])

# ---- cp.async: ``size`` bytes, of which a lane's count is copied and the rest is zeros ----

for cop, space, size in (("ca", "shared", 4), ("ca", "shared", 8), ("ca", "shared::cta", 16),
                         ("cg", "shared", 16), ("cg", "shared::cta", 16)):
    base = f"{FILL} {PLACES['shared'][1]} st.shared.v4.b32 [%x], {{%y, %y, %y, %y}}; "
    back = "ld.shared.v4.b32 {%d0, %d1, %d2, %d3}, [%x];"
    for fetch in ("", "L2::64B", "L2::128B", "L2::256B") if space == "shared" else ("",):
        opcode = dotted("cp.async", cop, space, "global", fetch)
        wait = "cp.async.commit_group; cp.async.wait_group 0;" if not fetch else "cp.async.wait_all;"
        enter(f"{opcode} {size}", f"{base} {opcode} [%x], [%a0], {size}, %s1; {wait} {back}", ("b128", "b32"),
              ("b32",) * 4, (raw(128, 11), (hashed(size, 128) % np.uint64(size + 1)).astype(np.uint32)))
        enter(f"{opcode} {size} whole", f"{base} {opcode} [%x], [%a0], {size}; {wait} {back}",
              ("b128",), ("b32",) * 4, (raw(128, 12),))
