#!/usr/bin/env python3
"""Writes golden_keys.inc: the names that LMCache's own adapters give to objects.

    python3 tests/unit/l2/generate.py      (needs lmcache 0.5.6)
"""
import os

from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.l2_adapters.fs_l2_adapter import _object_key_to_filename
from lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter import _object_key_to_string
from lmcache.v1.storage_backend.raw_block import encode_object_key

HERE = os.path.dirname(os.path.abspath(__file__))

KEYS = [
    ("bench-model", 0, 0, "00" * 16, ""),
    ("bench-model", 7, 0, "00" * 15 + "07", ""),
    ("meta-llama/Llama-3.1-8B", 0x01000100, 2, "8badf00d", "user-7"),
    ("../../etc/passwd", 0x08050403, 255, "ff" * 32, "a b%"),
    ("M\u00f6dell \u2603", 0xFFFFFFFF, 16, "01", ""),
    ("a\\b:c*?\"<>|", 1, 0, "0123456789abcdef", "s:alt"),
]


def c_string(text):
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}"
                         for b in text.encode()) + '"'


with open(os.path.join(HERE, "golden_keys.inc"), "w") as out:
    out.write("/* Written by generate.py. */\n"
              "/* Model, rank, group, hash, salt; the names of fs, of resp and s3, of raw_block, and\n"
              " * the identity of raw_block's slot. */\n")
    for model, rank, group, digest, salt in KEYS:
        key = ObjectKey(chunk_hash=bytes.fromhex(digest), model_name=model, kv_rank=rank,
                        object_group_id=group, cache_salt=salt)
        raw = encode_object_key(key)
        texts = [_object_key_to_filename(key), _object_key_to_string(key), raw.encoded]
        out.write(f"{{{c_string(model)}, {rank:#x}u, {group}, \"{digest}\", {c_string(salt)},\n"
                  + "".join(f" {c_string(text)},\n" for text in texts)
                  + f" {raw.slot_identity:#x}u}},\n")
