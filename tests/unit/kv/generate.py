#!/usr/bin/env python3
"""Writes the expected values of these tests: shape_specs.inc and golden_*.inc.

    python3 tests/unit/kv/generate.py      (needs torch, blake3 and lmcache 0.5.6)

They come from torch, hashlib, the blake3 package and LMCache's own parser, never from kvconform.
"""
import hashlib
import os

import blake3
import torch
from lmcache.v1.kv_layer_groups import parse_kvcache_shape_spec

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = "/* Written by generate.py. */\n"

SPECS = [
    "(2,1024,16,8,128):float16:32", "(1,64,16,1,576):bfloat16:2", "(2,4,4,2,8):uint8:1",
    "(2,4,4,2,8):int8:1", "(2,4,4,2,8):float32:1", "(2,4,4,2,8):FLOAT16:1",
    "(2,4,4,2,8):BFloat16:1", " (2,4,4,2,8):float16:1 ", "( 2 , 4,4 ,2,8 ): float16 : 1",
    "\t(2,4,4,2,8):float16:1\n", "(2,4,4,2,\x1f8):float16:1", "(2,4,4,2,8):float16:1;",
    "; ;(2,4,4,2,8):float16:1;;(2,4,4,2,8):uint8:2; ", "(+2,4,4,2,8):float16:+1",
    "(2,1_0,4,2,8):float16:1_2", "(2,04,4,2,008):float16:01",
    "(2,4,4,2,8):float16:30;(1,4,4,4,64):bfloat16:2", "(2,64,1,1,1):uint8:100000",
    # LMCache's parser takes these; nothing can be made of them, or its bench refuses them later.
    "(2,4,4,2,8):float16:1;(2,5,4,2,8):float16:1", "(2,4,4,2,8):float16:1;(2,4,5,2,8):float16:1",
    "(2,0,4,2,8):float16:1", "(2,4,0,2,8):float16:1", "(2,-1,4,2,8):float16:1",
    "(3,4,4,2,8):float16:1", "(0,4,4,2,8):float16:1", "(2,4,4,0,8):float16:1",
    "(2,4,4,2,0):float16:1", "(2,4,4,2,8):float16:0", "(2,4,4,2,8):float16:-1",
    "(2,4,4,2,8):float16:1048577",
    "(2,2147483647,2147483647,1,1):uint8:1",
    # It takes digits of any script; we take 0 to 9.
    "(2,4,4,2,\u0668):float16:1",
    # It refuses these.
    "(2,2147483648,1,1,1):uint8:1", "(2,99999999999999999999,1,1,1):uint8:1",
    "(2,4,4,2,8):uint8:99999999999999999999", "", ";", " ", "(2,4,4,2,8)", "(2,4,4,2,8):float16",
    "(2,4,4,2,8):float16:", "(2,4,4,2,8):float16:1:2", "(2,4,4,2,8) :float16:1",
    "[2,4,4,2,8]:float16:1", "2,4,4,2,8:float16:1", "(2,4,4,2):float16:1",
    "(2,4,4,2,8,1):float16:1", "(2,4,4,2,):float16:1", "(2,4,4,2,8,):float16:1", "():float16:1",
    "(2,4,4,2,x):float16:1", "(2,4,4,2,8.0):float16:1", "(2,4,4,2,0x8):float16:1",
    "(2,4,4,2,1__0):float16:1", "(2,4,4,2,_8):float16:1", "(2,4,4,2,8_):float16:1",
    "(2,4,4,2,+ 8):float16:1", "(2,4,4,2,--8):float16:1", "(2,4 4,4,2,8):float16:1",
    "(2,4,4,2,8):half:1", "(2,4,4,2,8):torch.float16:1", "(2,4,4,2,8):float8_e4m3fn:1",
    "(2,4,4,2,8):float64:1", "(2,4,4,2,8)::1", "(2,4,4,2,8):float 16:1",
    "(2,4,4,2,8):float16:one", "(2,4,4,2,8):float16:1.0",
    "(2,4,4,2,8):float16:1,(2,4,4,2,8):uint8:1", "(2,4,4,2,8)):float16:1",
    "((2,4,4,2,8):float16:1", "(2,4,4,2,8)x):float16:1", "(2,4,4,2,8):float16:1;junk",
]


def c_string(text):
    return '"%s"' % "".join(
        chr(b) if 32 <= b < 127 and b not in (34, 92) else "\\%03o" % b for b in text.encode())


def lmcache_reads(spec):
    try:
        groups = parse_kvcache_shape_spec(spec)
    except Exception:
        return None
    return ";".join(
        "(%d,%d,%d,%d,%d):%s:%d" % (d.kv_size, d.nb, d.bs, d.nh, d.hs, str(g.dtype)[6:], d.nl)
        for g in groups for d in [g.shape_desc])


def write_shape_specs(out):
    out.write(HEAD + "/* A spec, and how LMCache reads it (NULL: it refuses). */\n")
    for spec in SPECS:
        read = lmcache_reads(spec)
        out.write("{%s,\n %s},\n" % (c_string(spec), "NULL" if read is None else c_string(read)))


# The geometry of golden_chunks.inc and golden_checksums.inc.
NB, BS, NH, HS, NL, BLOCKS = 3, 2, 2, 3, 2, [2, 0]
# The tensor's axes, and how to turn them into K or V, block, slot, head, element.
LAYOUTS = {
    "KVC_LAYOUT_NHD": ((2, NB, BS, NH, HS), (0, 1, 2, 3, 4)),
    "KVC_LAYOUT_HND": ((2, NB, NH, BS, HS), (0, 1, 3, 2, 4)),
    "KVC_LAYOUT_FLASHINFER_NHD": ((NB, 2, BS, NH, HS), (1, 0, 2, 3, 4)),
    "KVC_LAYOUT_FLASHINFER_HND": ((NB, 2, NH, BS, HS), (1, 0, 3, 2, 4)),
    "KVC_LAYOUT_MLA": ((NB, BS, NH * HS), None),
}


def layers(shape, dtype, factor):
    count = torch.Size(shape).numel()
    return [((torch.arange(count) + layer * count) * factor).to(dtype).reshape(shape)
            for layer in range(NL)]


def raw(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def chunk(tensors, axes):
    if axes is None:
        return torch.stack([t[BLOCKS].reshape(len(BLOCKS) * BS, NH * HS) for t in tensors])[None]
    parts = [t.permute(axes)[:, BLOCKS].reshape(2, len(BLOCKS) * BS, NH * HS) for t in tensors]
    return torch.stack(parts, dim=1)


def write_chunks(out):
    out.write(HEAD + "/* Layout, dtype, what an element's number is multiplied by, the chunk. */\n")
    for layout, (shape, axes) in LAYOUTS.items():
        for dtype, factor in (("uint8", 1), ("int16", 251), ("int32", 16777259)):
            tensors = layers(shape, getattr(torch, dtype), factor)
            out.write('{%s, "%s", %d,\n "%s"},\n'
                      % (layout, dtype, factor, raw(chunk(tensors, axes)).hex()))


def restricted(tensor, layout):
    first = layout in ("KVC_LAYOUT_NHD", "KVC_LAYOUT_HND")
    part = tensor[:, BLOCKS] if first else tensor[BLOCKS]
    return raw(part.float() if tensor.dtype == torch.bfloat16 else part)


def write_checksums(out):
    out.write(HEAD + "/* Layout, dtype, factor, MD5 of all layers, MD5 of layer 1. */\n")
    for layout, (shape, _) in LAYOUTS.items():
        for dtype, factor in (("uint8", 1), ("int16", 251), ("bfloat16", 251)):
            if dtype == "bfloat16":
                tensors = [t.view(torch.bfloat16) for t in layers(shape, torch.int16, factor)]
            else:
                tensors = layers(shape, getattr(torch, dtype), factor)
            data = [restricted(t, layout) for t in tensors]
            out.write('{%s, "%s", %d,\n "%s", "%s"},\n'
                      % (layout, dtype, factor, hashlib.md5(b"".join(data)).hexdigest(),
                         hashlib.md5(data[1]).hexdigest()))


def write_blake3(out):
    out.write(HEAD + "/* Bytes 0, 1, … 250, 0, … : how many, and their BLAKE3. */\n")
    sizes = [0, 1, 3, 4, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 2048, 2049, 3072, 3073, 4096,
             4097, 5120, 5121, 6144, 7169, 8192, 8193, 16384, 31744, 102400]
    for size in sizes:
        data = bytes(i % 251 for i in range(size))
        out.write('{%d, "%s"},\n' % (size, blake3.blake3(data).hexdigest()))


for name, write in (("shape_specs", write_shape_specs), ("golden_chunks", write_chunks),
                    ("golden_checksums", write_checksums), ("golden_blake3", write_blake3)):
    with open(os.path.join(HERE, name + ".inc"), "w", encoding="utf-8") as file:
        write(file)
