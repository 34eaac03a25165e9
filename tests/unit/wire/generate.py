#!/usr/bin/env python3
"""Writes the expected values of these tests: golden_*.inc.

    python3 tests/unit/wire/generate.py OLDEST OLDER    (needs torch and lmcache 0.5.6;
                                                         folders with lmcache 0.5.1 and 0.5.5)

They come from the encoders of these releases, from Python's pickle and from torch, never from kvconform.
"""
import hashlib
import os
import pickle
import re
import struct
import subprocess
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = "/* Written by generate.py. */\n"

warnings.simplefilter("ignore")


def write(name, lines):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
        file.write(HEAD + "".join(line + "\n" for line in lines))


def c_bytes(data):
    return '"%s"' % data.hex()


# ---- what a release's own code writes; runs with that release on the path ----

SHAPES = [  # of tensors in shared memory: shape, dtype, elements before the tensor
    ((2, 64, 16, 2, 8), "float16", 0),
    ((64, 16, 32), "bfloat16", 0),
    ((7,), "uint8", 0),
    ((4, 5), "float8_e4m3fn", 0),
    ((300, 70000), "float32", 0),
    ((3, 4), "int64", 5),
]


def operations():
    try:
        from lmcache.v1.multiprocess.protocols.base import RequestType
    except ImportError:
        from lmcache.v1.multiprocess.transport.zmq_impl.wire import LEGACY_OPERATION_IDS
        return dict(LEGACY_OPERATION_IDS)
    return {member.name.lower(): member.value for member in RequestType}


def wrapper(shape, dtype, offset, name):
    """A wrapper as a client makes it, without a segment behind it."""
    import torch
    try:
        from lmcache.v1.platform.cpu.shm import CpuShmTensorWrapper
    except ImportError:
        from lmcache.v1.platform.devices.cpu.shm import CpuShmTensorWrapper
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    torch_dtype = getattr(torch, dtype)
    elements = strides[0] * shape[0] + offset
    result = object.__new__(CpuShmTensorWrapper)
    result.shm_name = name
    result.nbytes = elements * torch.empty(0, dtype=torch_dtype).element_size()
    result.handle = None
    result.dtype = torch_dtype
    result.shape = tuple(shape)
    result.stride = tuple(strides)
    result.storage_offset = offset
    result.device_uuid = "cpu"
    return result


def cuda_classes():
    """The module of the wrappers of memory of a GPU."""
    try:
        import lmcache.v1.platform.cuda.ipc_wrapper as classes
    except ImportError:
        import lmcache.v1.platform.devices.cuda.ipc_wrapper as classes
    return classes


def add_view(result, template, elements=0):
    for name in ("dtype", "shape", "stride"):
        setattr(result, name, getattr(template, name))
    result.storage_offset = elements


def cuda_wrapper(shape, dtype, offset):
    """The same for memory of a GPU, `offset` bytes into its allocation."""
    RawCudaIPCWrapper = cuda_classes().RawCudaIPCWrapper
    template = wrapper(shape, dtype, 0, "")
    result = object.__new__(RawCudaIPCWrapper)
    result._ipc_handle_reserved = bytes(range(64))
    if hasattr(RawCudaIPCWrapper, "close"):
        result._alloc_offset = offset
    result._nbytes = template.nbytes
    result.handle = None
    add_view(result, template)
    if hasattr(RawCudaIPCWrapper, "close"):
        result._opens = 0
    result.device_uuid = CUDA_UUID
    return result


def torch_wrapper(shape, dtype, elements, handle):
    """Memory that torch shares, a tensor `elements` into its storage; SIZE in the handle is that of the storage."""
    CudaIPCWrapper = cuda_classes().CudaIPCWrapper
    template = wrapper(shape, dtype, elements, "")
    result = object.__new__(CudaIPCWrapper)
    result.handle = tuple(template.nbytes if item is SIZE else item for item in handle)
    add_view(result, template, elements)
    result.device_uuid = CUDA_UUID
    return result


def vmm_wrapper(shape, dtype, offset, kind, blob):
    """Memory of the virtual-memory API; in the order of __init__, and pickled by __getstate__."""
    template = wrapper(shape, dtype, 0, "")
    result = object.__new__(cuda_classes().VmmCudaIPCWrapper)
    result._export_id = bytes(range(16))
    result._kind, result._fabric_blob, result._fd = kind, blob, None
    result._alloc_size = 2 << 20
    result._alloc_offset, result._nbytes = offset, template.nbytes
    result.handle = result._export_id
    add_view(result, template)
    result.device_uuid = CUDA_UUID
    result._opens = 0
    return result


CUDA_UUID = "7374616e-642d-696e-2064-657669636500"
CUDA_TENSORS = [((2, 64, 16, 2, 8), "float16", 0), ((64, 16, 32), "bfloat16", 4096), ((7,), "uint8", 1 << 33)]
SIZE = object()
IPC, EVENT = bytes(range(64)), bytes(range(64, 128))
TORCH_TENSORS = [  # shape, dtype, elements before the tensor, torch's tuple
    ((2, 64, 16, 2, 8), "float16", 0,
     (0, b"\2c" + IPC, SIZE, 0, b"/torch_4242_123456789_0", 0, EVENT, True)),
    ((64, 16, 32), "bfloat16", 4096,
     (7, b"\3c" + IPC, SIZE, 20 << 20, b"/torch_1_2_31", 9999, bytes(64), False)),
    ((300, 70000), "float32", 3, (1, IPC, SIZE, 1 << 33, b"/torch_1_2_31", 256, EVENT, True)),
    ((7,), "uint8", 0, (0, None, SIZE, 0, None, 0, None, False)),
]
VMM_TENSORS = [((2, 64, 16, 2, 8), "float16", 512, "posix_fd", None), ((4, 5), "uint8", 0, "fabric", IPC)]


def c_optional(data):
    return "NULL" if data is None else c_bytes(data)


def c_view(item):
    return '"%s", %d, {%s}, {%s}' % (str(item.dtype).removeprefix("torch."), len(item.shape),
                                     ", ".join(map(str, item.shape)), ", ".join(map(str, item.stride)))


def gpu_values(release, encoder):
    """Handles of memory of a GPU that are not raw."""
    for tensor in TORCH_TENSORS:
        item = torch_wrapper(*tensor)
        device, ipc, size, offset, counter, counter_offset, event, has_event = item.handle
        print('golden_torch_handles\t{{"%s", %s}, %d, %d, %s, %d, %d, %s, %d, %s, %s, %s},' % (
            release, c_view(item), item.storage_offset, device, c_optional(ipc), size, offset, c_optional(counter),
            counter_offset, c_optional(event), str(has_event).lower(), c_bytes(encoder.encode([item]))))
    for tensor in VMM_TENSORS if hasattr(cuda_classes(), "VmmCudaIPCWrapper") else []:
        item = vmm_wrapper(*tensor)
        print('golden_vmm_handles\t{{"%s", %s}, "%s", %s, %d, %d, %d, %s},' % (
            release, c_view(item), item._kind, c_optional(item._fabric_blob), item._alloc_size, item._alloc_offset,
            item._nbytes, c_bytes(encoder.encode([item]))))


def release_values():
    """Lines of the .inc files of the release that is on the path."""
    from lmcache.v1.multiprocess.custom_types import DeviceIPCWrapper, get_customized_encoder
    import lmcache

    release = lmcache.__version__ if hasattr(lmcache, "__version__") else sys.argv[3]
    release = re.match(r"\d+\.\d+\.\d+", release).group(0)
    for name, number in sorted(operations().items(), key=lambda item: item[1]):
        print('golden_operations\t{"%s", "%s", %d},' % (release, name, number))
    encoder = get_customized_encoder(list[DeviceIPCWrapper])
    for shape, dtype, offset in SHAPES:
        item = wrapper(shape, dtype, offset, "/lmcache_kv_%d" % len(shape))
        encoded = encoder.encode([item])
        print('golden_handles\t{"%s", "%s", "%s", %d, {%s}, {%s}, %d, %d, %s},' % (
            release, item.shm_name, dtype, len(shape), ", ".join(map(str, shape)),
            ", ".join(map(str, item.stride)), offset, item.nbytes, c_bytes(encoded)))
    for shape, dtype, offset in CUDA_TENSORS:
        item = cuda_wrapper(shape, dtype, offset)
        print('golden_cuda_handles\t{"%s", "%s", %d, {%s}, {%s}, %d, %d, %s},' % (
            release, dtype, len(shape), ", ".join(map(str, shape)), ", ".join(map(str, item.stride)),
            getattr(item, "_alloc_offset", 0), item._nbytes, c_bytes(encoder.encode([item]))))
    gpu_values(release, encoder)


# ---- pickled tensors ----

TENSORS = [  # dtype, shape, how many
    ("float16", (2, 3), 1),
    ("float16", (2, 2, 16, 8), 2),
    ("bfloat16", (2, 16, 5), 3),
    ("float32", (7,), 2),
    ("uint8", (3, 0, 4), 2),
    ("int64", (2, 1, 2, 2), 1),
    ("uint8", (65000,), 2),          # a frame fills up after the second
    ("uint8", (65535,), 2),          # with the file's head more than a frame holds
    ("float16", (2, 2, 256, 100), 3),
    ("int8", (1,), 1003),            # a list is written in runs of 1000
    ("int16", (9, 3), 40),           # more memo entries than one byte counts
]


def pattern(size):
    return bytes((i * 167 + (i >> 8) * 13) & 0xFF for i in range(size))


def make_tensors(dtype, shape, count):
    import torch
    torch_dtype = getattr(torch, dtype)
    elements = 1
    for size in shape:
        elements *= size
    size = elements * torch.empty(0, dtype=torch_dtype).element_size()
    data = pattern(size * count)
    result = []
    for i in range(count):
        part = bytearray(data[i * size:(i + 1) * size])
        flat = torch.frombuffer(part, dtype=torch.uint8).view(torch_dtype) if part \
            else torch.empty(0, dtype=torch_dtype)
        result.append(flat.reshape(shape).clone())
    return result, data


def numbered(data, count):
    """The pickle with its storage keys, which are addresses, replaced by 0, 1, 2, … of as many digits."""
    keys = re.findall(rb"X....(\d{8,})q\x02", data, re.S)
    assert len(keys) == count and len(set(map(len, keys))) == 1
    numbers = iter(range(count))
    digits = len(keys[0])
    pattern = rb"(X....)(\d{%d})(q\x02.*?X....)\2" % digits
    data = re.sub(pattern, lambda m: b"%b%0*d%b%0*d" % (m[1], digits, number := next(numbers), m[3], digits, number),
                  data, flags=re.S)
    return data, digits


def inline_torch():
    for dtype, shape, count in TENSORS:
        tensors, _ = make_tensors(dtype, shape, count)
        data, digits = numbered(pickle.dumps(tensors), count)
        yield '{"%s", %d, {%s}, %d, %d, %d, "%s"},' % (
            dtype, len(shape), ", ".join(map(str, shape)), count, digits, len(data),
            hashlib.md5(data).hexdigest())


class Assembler:
    """Calls of globals as Python would pickle them, in one frame."""

    def __init__(self):
        self.body, self.memo, self.known = b"", 0, {}

    def put(self, opcodes, remember=True):
        self.body += opcodes
        if remember:
            self.body += b"\x94"
            self.memo += 1

    def text(self, text):
        self.put(b"\x8c" + bytes([len(text)]) + text.encode())

    def name(self, module, name):
        if (module, name) in self.known:
            self.put(b"h" + bytes([self.known[module, name]]), False)
            return
        self.text(module)
        self.text(name)
        self.known[module, name] = self.memo
        self.put(b"\x93")

    def call(self, arguments):
        self.put([b")", b"\x85", b"\x86", b"\x87"][arguments])
        self.put(b"R")

    def ints(self, numbers):
        if len(numbers) > 3:
            self.put(b"(", False)
        for number in numbers:
            assert number < 65536
            self.put(b"K" + bytes([number]) if number < 256 else b"M" + struct.pack("<H", number), False)
        self.put([b")", b"\x85", b"\x86", b"\x87"][len(numbers)] if len(numbers) <= 3 else b"t")

    def numpy_tensor(self, data, numpy, shape, view):
        if view:
            self.name("torch", "Tensor.view")
        self.name("torch", "from_numpy")
        self.name("numpy", "array")
        self.name("numpy", "reshape")
        self.name("numpy", "frombuffer")
        short = len(data) < 256
        self.put((b"C" + bytes([len(data)]) if short else b"B" + struct.pack("<I", len(data))) + data)
        self.text(numpy)
        self.call(2)
        self.ints(shape)
        self.call(2)
        self.call(1)
        self.call(1)
        if view:
            self.name("torch", view)
            self.call(2)

    def finish(self):
        self.put(b".", False)
        return b"\x80\x04\x95" + struct.pack("<Q", len(self.body)) + self.body


def inline_numpy():
    import torch
    for dtype, numpy, view, shape, count in [
            ("float16", "<f2", None, (2, 3), 1), ("bfloat16", "<u2", "bfloat16", (2, 2, 4, 2), 2),
            ("float8_e4m3fn", "|u1", "float8_e4m3fn", (2, 150), 2)]:
        tensors, data = make_tensors(dtype, shape, count)
        size = len(data) // count
        assembler = Assembler()
        assembler.put(b"]")
        if count > 1:
            assembler.put(b"(", False)
        for i in range(count):
            assembler.numpy_tensor(data[i * size:(i + 1) * size], numpy, shape, view)
        assembler.put(b"e" if count > 1 else b"a", False)
        golden = assembler.finish()
        for loaded, tensor in zip(pickle.loads(golden), tensors):
            assert loaded.dtype == tensor.dtype and loaded.shape == tensor.shape
            assert torch.equal(loaded.view(torch.uint8), tensor.view(torch.uint8))
        yield '{"%s", %d, {%s}, %d, %s},' % (
            dtype, len(shape), ", ".join(map(str, shape)), count, c_bytes(golden))


def inline_views():
    """Tensors that are views: what the reader must copy together, or refuse."""
    import torch
    base = torch.frombuffer(bytearray(pattern(24 * 4)), dtype=torch.int32).reshape(2, 3, 4)
    for name, tensor in [
            ("transposed", base.transpose(0, 2)), ("rows from 1", base[:, 1:]),
            ("every second", base[:, :, ::2]), ("one row", base[1]), ("whole", base),
            ("permuted", base.permute(1, 0, 2)), ("expanded", base[:1].expand(3, 3, 4)),
            ("float8", torch.frombuffer(bytearray(pattern(6)), dtype=torch.uint8)
             .view(torch.float8_e4m3fn).reshape(2, 3))]:
        raw = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        yield '{"%s", "%s", %d, {%s}, %s, %s},' % (
            name, str(tensor.dtype).removeprefix("torch."), tensor.dim(),
            ", ".join(map(str, tensor.shape)), c_bytes(raw), c_bytes(pickle.dumps([tensor])))


def main():
    if sys.argv[2] == "release":
        release_values()
        return
    lines = {"golden_operations": [], "golden_handles": [], "golden_cuda_handles": [], "golden_torch_handles": [],
             "golden_vmm_handles": []}
    for path, release in [(sys.argv[1], "0.5.1"), (sys.argv[2], "0.5.5"), ("", "0.5.6")]:
        output = subprocess.run([sys.executable, __file__, sys.argv[1], "release", release], check=True,
                                env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True).stdout
        for line in output.splitlines():
            name, _, value = line.partition("\t")
            if name in lines and (release != "0.5.5" or name not in ("golden_operations", "golden_handles")):
                lines[name].append(value)
    for name, values in lines.items():
        write(name + ".inc", values)
    write("golden_inline_torch.inc", inline_torch())
    write("golden_inline_numpy.inc", inline_numpy())
    write("golden_inline_views.inc", inline_views())


main()
