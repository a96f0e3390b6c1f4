#!/usr/bin/python3
"""Speed of quantising a whole GGUF file beside llama.cpp's quantiser: medians and ratio of interleaved runs.

    quantize_file.py IN.gguf --peer FOLDER [--type q4_k_m] [--threads 2] [--rounds 3] [--kda build/release/bin/kda] [--scratch FOLDER]

FOLDER has node-llama-cpp in node_modules (see compare.py); its libllama is called through ctypes, each time in a process of its own.
Both read the same file from a warm page cache and write to the scratch folder (default: beside IN.gguf). kda's time is that of the whole
process with its final fsync, the peer's that of the call. kda runs with --recipe llama.cpp, so that both make the same types.
"""
import argparse
import ctypes
import glob
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# llama_ftype of the public header, by our names.
FTYPES = {"q4_0": 2, "q8_0": 7, "q5_0": 8, "q2_k": 10, "q3_k_m": 12, "q4_k_s": 14, "q4_k_m": 15, "q5_k_m": 17, "q6_k": 18, "iq4_nl": 25,
          "iq4_xs": 30}


def fail(message):
    sys.exit(f"quantize_file.py: error: {message}")


class Params(ctypes.Structure):
    """llama_model_quantize_params: the first two members and room for the others, which keep their defaults."""
    _fields_ = [("nthread", ctypes.c_int32), ("ftype", ctypes.c_int32), ("rest", ctypes.c_uint8 * 504)]


def quantize_with_peer(libraries, source, target, kind, threads):
    """Prints the seconds of the call."""
    for name in ("libggml-base.so", "libggml.so", "libggml.v*.so", "libllama.so", "libllama.v*.so"):
        for path in glob.glob(os.path.join(libraries, name)):
            lib = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    lib.llama_backend_init()
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    lib.llama_log_set(quiet, None)
    lib.llama_model_quantize_default_params.restype = Params
    params = lib.llama_model_quantize_default_params()
    params.nthread, params.ftype = threads, FTYPES[kind]
    lib.llama_model_quantize.restype = ctypes.c_uint32
    begin = time.perf_counter()
    status = lib.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params))
    if status:
        fail(f"llama_model_quantize returned {status}")
    print(time.perf_counter() - begin)


def main():
    if sys.argv[1:2] == ["--call-peer"]:
        return quantize_with_peer(*sys.argv[2:6], int(sys.argv[6]))
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--peer", required=True, metavar="FOLDER")
    ap.add_argument("--type", default="q4_k_m", choices=sorted(FTYPES))
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--kda", default=os.path.join(HERE, "..", "build", "release", "bin", "kda"))
    ap.add_argument("--scratch", metavar="FOLDER")
    a = ap.parse_args()
    libraries = glob.glob(os.path.join(a.peer, "node_modules", "@node-llama-cpp", "linux-x64", "bins", "linux-x64"))
    if not libraries:
        fail(f"{a.peer}: no node-llama-cpp for x86-64 Linux in it; run `npm install --ignore-scripts node-llama-cpp@3.22.1` there")
    scratch = a.scratch or os.path.dirname(os.path.abspath(a.model))
    ours, theirs = (os.path.join(scratch, f"quantize-file-{os.getpid()}-{side}.gguf") for side in ("kda", "peer"))
    times, sizes = {"kda": [], "llama.cpp": []}, {}

    def measure(side, command, path):
        begin = time.perf_counter()
        run = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - begin
        if run.returncode:
            fail(f"{side} ended with {run.returncode}: {run.stderr.strip()[-1000:]}")
        sizes[side] = os.path.getsize(path)
        os.remove(path)
        return float(run.stdout) if side != "kda" else seconds
    with open(a.model, "rb") as f:  # into the page cache
        while f.read(1 << 24):
            pass
    try:
        for _ in range(a.rounds):
            times["kda"].append(measure("kda", [a.kda, "quantize", a.model, ours, a.type, "--recipe", "llama.cpp", "--threads",
                                                str(a.threads), "--quiet"], ours))
            times["llama.cpp"].append(measure("llama.cpp", [sys.executable, __file__, "--call-peer", libraries[0], a.model, theirs,
                                                            a.type, str(a.threads)], theirs))
    finally:
        for path in (ours, theirs):
            if os.path.exists(path):
                os.remove(path)
    read = os.path.getsize(a.model)
    for side, seconds in times.items():
        t = statistics.median(seconds)
        print(f"{side}: {t:.2f} s ({min(seconds):.2f} .. {max(seconds):.2f}), {read / t / 1e9:.2f} GB/s read, {sizes[side]} bytes written")
    print(f"{a.type}, {a.threads} threads: kda is {statistics.median(times['llama.cpp']) / statistics.median(times['kda']):.2f} times as fast")


if __name__ == "__main__":
    main()
