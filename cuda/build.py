"""Build and check the PTX that ships with firelu.

    python cuda/build.py fetch              # the pinned toolchain from PyPI, into target/cuda-toolchain
    python cuda/build.py build              # cuda/*.cu -> cuda/ptx/*.ptx and cuda/ptx/manifest.json
    python cuda/build.py check              # manifest against sources; with the toolchain: rebuild, assemble
    python cuda/build.py check-all          # the same with every assembler for every architecture that it knows

The compiler is the run-time compiler library of CUDA 11.8, the newest that reaches back to compute_50. What it writes
is valid PTX 6.0, so the header says so and every driver that loads PTX 6.0 loads it. Needs no GPU and no host compiler.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import ctypes
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import disassembly
from definedness import complaints

HERE = Path(__file__).resolve().parent
OUTPUT = HERE / "ptx"
TOOLCHAIN = HERE.parent / "target" / "cuda-toolchain"

COMPILER_PACKAGES = ("nvidia-cuda-nvrtc-cu11==11.8.89", "nvidia-cuda-runtime-cu11==11.8.89")
TARGET = "compute_50"
PTX_VERSION = "6.0"
# --fmad=false: multiply and add round apart, as on the CPU; the kernels write fma where one rounding is wanted.
FLAGS = (f"--gpu-architecture={TARGET}", "--std=c++17", "--fmad=false", "--extra-device-vectorization")

# The last release of every assembler generation on PyPI.
ASSEMBLER_PACKAGES = (
    "nvidia-cuda-nvcc-cu11==11.7.99",
    "nvidia-cuda-nvcc-cu11==11.8.89",
    "nvidia-cuda-nvcc-cu12==12.0.140",
    "nvidia-cuda-nvcc-cu12==12.1.105",
    "nvidia-cuda-nvcc-cu12==12.2.140",
    "nvidia-cuda-nvcc-cu12==12.3.107",
    "nvidia-cuda-nvcc-cu12==12.4.131",
    "nvidia-cuda-nvcc-cu12==12.5.82",
    "nvidia-cuda-nvcc-cu12==12.6.85",
    "nvidia-cuda-nvcc-cu12==12.8.93",
    "nvidia-cuda-nvcc-cu12==12.9.86",
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-nvcc==13.1.115",
    "nvidia-cuda-nvcc==13.2.86",
    "nvidia-cuda-nvcc==13.3.73",
    "nvidia-cuda-nvcc==13.4.92",
)

# The disassembler for the check of the machine code, and the architectures that are looked at.
DISASSEMBLER_PACKAGE = "nvidia-cuda-nvdisasm==13.4.92"
DISASSEMBLED = ("sm_80", "sm_90")
DISASSEMBLED_WITH = "ptxas-12.9.86"


def sha256(data: bytes) -> str:
    """Return the SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sources_of(path: Path) -> list[Path]:
    """Return `path` and every header of ours that it includes, directly or not, in a fixed order."""
    found: dict[Path, None] = {}

    def visit(file: Path) -> None:
        if file in found:
            return
        found[file] = None
        for name in re.findall(r'^\s*#include "([^"]+)"', file.read_text(encoding="utf-8"), flags=re.M):
            visit(HERE / "include" / name)

    visit(path)
    return list(found)


def modules() -> list[Path]:
    """Return the kernel sources, one module each."""
    return sorted(HERE.glob("*.cu"))


def name_parameters(text: str) -> str:
    """Write every load of a kernel parameter with the parameter's name instead of a register that holds its address.

    The compiler copies the address to a register where a load stands in another basic block than the first; named, a
    load can be checked against the size of the parameter by whoever reads the file.
    """
    return "".join(map(_name_parameters_of_kernel, re.split(r"(?=^\.visible \.entry )", text, flags=re.M)))


def _name_parameters_of_kernel(text: str) -> str:
    held: dict[str, tuple[str, int]] = {}  # register -> parameter and offset
    lines = []
    for line in text.split("\n"):
        if (move := re.fullmatch(r"\tmov\.[bu]64 \t(%rd\d+), ([\w%]+);", line)) and (
            move[2] in held or move[2].endswith("_param_0")
        ):
            held[move[1]] = held.get(move[2], (move[2], 0))
            continue
        if (add := re.fullmatch(r"\tadd\.s64 \t(%rd\d+), (%rd\d+), (\d+);", line)) and add[2] in held:
            name, offset = held[add[2]]
            held[add[1]] = (name, offset + int(add[3]))
            continue
        if (load := re.fullmatch(r"(\tld\.param\..*)\[(%rd\d+)(?:\+(\d+))?\];", line)) and load[2] in held:
            name, offset = held[load[2]]
            line = f"{load[1]}[{name}+{offset + int(load[3] or 0)}];"
        lines.append(line)
    result = "\n".join(lines)
    if used := set(re.findall(r"%rd\d+", result)) & set(held):
        raise RuntimeError(f"the address of a parameter in {used} is used for more than loads")
    return result


class Compiler:
    """The CUDA 11.8 run-time compiler, called through ctypes."""

    def __init__(self, toolchain: Path) -> None:
        root = toolchain / "compiler" / "nvidia"
        ctypes.CDLL(str(root / "cuda_nvrtc/lib/libnvrtc-builtins.so.11.8"), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(root / "cuda_nvrtc/lib/libnvrtc.so.11.2"))
        self.include = root / "cuda_runtime" / "include"

    def compile(self, source: Path) -> bytes:
        """Compile one source to PTX with the header's version lowered; raise RuntimeError with the log."""
        program = ctypes.c_void_p()
        # The name given is the stem alone: no path of this machine reaches the PTX.
        text, name = source.read_bytes(), source.name.encode()
        self.call("nvrtcCreateProgram", ctypes.byref(program), text, name, 0, None, None)
        options = [*FLAGS, f"--include-path={HERE / 'include'}", f"--include-path={self.include}"]
        array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        status = self.library.nvrtcCompileProgram(program, len(options), array)
        size = ctypes.c_size_t()
        self.call("nvrtcGetProgramLogSize", program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.call("nvrtcGetProgramLog", program, log)
        if status != 0 or log.value.strip():
            raise RuntimeError(f"{source.name} does not compile cleanly:\n{log.value.decode()}")
        self.call("nvrtcGetPTXSize", program, ctypes.byref(size))
        ptx = ctypes.create_string_buffer(size.value)
        self.call("nvrtcGetPTX", program, ptx)
        self.call("nvrtcDestroyProgram", ctypes.byref(program))
        lowered, count = re.subn(rb"^\.version \d+\.\d+$", f".version {PTX_VERSION}".encode(), ptx.value, flags=re.M)
        if count != 1:
            raise RuntimeError(f"{source.name}: expected one .version line, found {count}")
        # What stands before .version is a comment with the compiler's build number.
        return name_parameters(lowered[lowered.index(b".version") :].decode()).strip().encode() + b"\n"

    def call(self, function: str, *arguments: object) -> None:
        """Call one function of the library and raise if it fails."""
        if status := getattr(self.library, function)(*arguments):
            raise RuntimeError(f"{function} failed with status {status}")


def manifest_of(ptx: dict[str, bytes]) -> str:
    """Return the manifest text for the compiled modules."""
    entries = {
        stem: {
            "ptx_sha256": sha256(data),
            "sources": {
                str(file.relative_to(HERE).as_posix()): sha256(file.read_bytes())
                for file in sources_of(HERE / f"{stem}.cu")
            },
            "kernels": re.findall(r"\.entry (\w+)", data.decode()),
        }
        for stem, data in sorted(ptx.items())
    }
    document = {
        "compiler": list(COMPILER_PACKAGES),
        "flags": list(FLAGS),
        "target": TARGET,
        "ptx_version": PTX_VERSION,
        "modules": entries,
    }
    return json.dumps(document, indent=1) + "\n"


def check_definedness(ptx: dict[str, bytes]) -> None:
    """Refuse kernels that compare what they have not computed."""
    if found := [f"{stem}: {c}" for stem, data in sorted(ptx.items()) for c in complaints(data.decode())]:
        raise SystemExit("\n".join(["the compiler erred; write the loop differently:", *found]))


def build(toolchain: Path) -> None:
    """Compile every module and write PTX and manifest."""
    compiler = Compiler(toolchain)
    ptx = {source.stem: compiler.compile(source) for source in modules()}
    check_definedness(ptx)
    OUTPUT.mkdir(exist_ok=True)
    for stale in set(OUTPUT.glob("*.ptx")) - {OUTPUT / f"{stem}.ptx" for stem in ptx}:
        stale.unlink()
    for stem, data in ptx.items():
        (OUTPUT / f"{stem}.ptx").write_bytes(data)
        print(f"{stem}.ptx: {len(data)} bytes, {data.count(b'.entry ')} kernels")
    (OUTPUT / "manifest.json").write_text(manifest_of(ptx), encoding="utf-8")


def check_hashes() -> None:
    """Compare the committed PTX and its sources with the manifest; needs no toolchain."""
    ptx = {file.stem: file.read_bytes() for file in OUTPUT.glob("*.ptx")}
    if sorted(ptx) != [source.stem for source in modules()]:
        raise SystemExit(f"PTX files {sorted(ptx)} do not match the sources: run `make ptx`")
    if manifest_of(ptx) != (OUTPUT / "manifest.json").read_text(encoding="utf-8"):
        raise SystemExit("a CUDA source, a PTX file or a flag has changed since the manifest: run `make ptx`")
    check_definedness(ptx)
    print(f"{len(ptx)} PTX modules match their sources")


def check_rebuild(toolchain: Path) -> None:
    """Compile again and compare byte for byte."""
    compiler = Compiler(toolchain)
    for source in modules():
        if compiler.compile(source) != (OUTPUT / f"{source.stem}.ptx").read_bytes():
            raise SystemExit(f"{source.stem}.ptx differs from what its source compiles to: run `make ptx`")
    print(f"{len(modules())} PTX modules rebuilt byte for byte")


def architectures(assembler: Path) -> list[str]:
    """Return the real architectures from sm_50 on that this assembler knows."""
    text = subprocess.run([assembler, "--help"], capture_output=True, text=True, check=True).stdout
    return sorted({a for a in re.findall(r"'(sm_\d+)'", text) if int(a[3:]) >= 50}, key=lambda a: int(a[3:]))


def assemble(assembler: Path, architecture: str, module: Path) -> str:
    """Assemble one module; return a complaint or the empty string."""
    with tempfile.TemporaryDirectory() as directory:
        command = [
            assembler,
            "--verbose",
            f"--gpu-name={architecture}",
            "--output-file",
            f"{directory}/a.cubin",
            module,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    label = f"{assembler.name} {architecture} {module.name}"
    if done.returncode != 0:
        return f"{label}: {done.stderr.strip()[:400]}"
    spills = re.findall(
        r"properties for (\w+)\n.* (\d+) bytes spill stores, (\d+) bytes spill loads",
        done.stderr,
    )
    if not spills:
        return f"{label}: the assembler does not tell of spills"
    told = [
        f"{kernel} spills {stores} bytes, reloads {loads}"
        for kernel, stores, loads in spills
        if (stores, loads) != ("0", "0")
    ]
    return f"{label}: {', '.join(told)}" if told else ""


def version_of(assembler: Path) -> tuple[int, ...]:
    """Return the version that an assembler's file name holds."""
    return tuple(map(int, assembler.name.removeprefix("ptxas-").split(".")))


def check_assemblers(toolchain: Path, *, every: bool) -> None:
    """Assemble every module for every architecture, with the newest assembler that knows it or with every one."""
    assemblers = sorted((toolchain / "assemblers").glob("ptxas-*"), key=version_of)
    known = {assembler: architectures(assembler) for assembler in assemblers}
    if not every:
        newest = {architecture: assembler for assembler in assemblers for architecture in known[assembler]}
        known = {assembler: [a for a in known[assembler] if newest[a] == assembler] for assembler in assemblers}
    ptx = sorted(OUTPUT.glob("*.ptx"))
    jobs = [(assembler, arch, module) for assembler in assemblers for arch in known[assembler] for module in ptx]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [c for c in pool.map(lambda job: assemble(*job), jobs) if c]
    if complaints:
        raise SystemExit("\n".join(complaints))
    print("| ptxas | architectures | assemblies | spills |\n|---|---|---|---|")
    for assembler in assemblers:
        if names := [architecture.removeprefix("sm_") for architecture in known[assembler]]:
            version = ".".join(map(str, version_of(assembler)))
            print(f"| {version} | sm_ {' '.join(names)} | {len(names) * len(ptx)} | 0 |")
    print(f"{len(jobs)} assemblies without a spill")


def check_machine_code(toolchain: Path) -> None:
    """Look into what the assembler makes of every module."""
    tools = toolchain / "assemblers" / DISASSEMBLED_WITH, toolchain / "nvdisasm"
    jobs = [(architecture, module) for architecture in DISASSEMBLED for module in sorted(OUTPUT.glob("*.ptx"))]
    found = [
        f"{architecture} {complaint}"
        for architecture, module in jobs
        for complaint in disassembly.complaints(disassembly.disassemble(*tools, architecture, module))
    ]
    if found:
        raise SystemExit("\n".join(found))
    print(f"{len(jobs)} modules as machine code: no local memory, loads under way together as planned")


def check_first_use(toolchain: Path) -> None:
    """Assemble every kernel alone, as it is loaded when it is first used, and tell which take longest."""
    assembler = toolchain / "assemblers" / DISASSEMBLED_WITH
    with tempfile.TemporaryDirectory() as directory:
        for architecture in DISASSEMBLED:
            found = []
            for module in sorted(OUTPUT.glob("*.ptx")):
                header, *kernels = re.split(r"^(?=\.visible \.entry)", module.read_text(encoding="utf-8"), flags=re.M)
                for kernel in kernels:
                    alone = Path(directory) / "alone.ptx"
                    alone.write_text(header + kernel, encoding="utf-8")
                    command = [assembler, f"--gpu-name={architecture}", "--output-file", f"{directory}/a.cubin", alone]
                    # Processor time: what else the machine does is left out.
                    before = processor_seconds()
                    subprocess.run(command, check=True)
                    found.append((processor_seconds() - before, kernel.split("(")[0].split()[-1]))
            found.sort(reverse=True)
            longest = ", ".join(f"{name} {seconds:.2f} s" for seconds, name in found[:3])
            print(f"{architecture}: all {len(found)} kernels assemble alone; longest: {longest}")


def processor_seconds() -> float:
    """Return the processor time of all programs that have been run so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fetch(toolchain: Path) -> None:
    """Install the compiler and every assembler from PyPI."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    compiler, assemblers = toolchain / "compiler", toolchain / "assemblers"
    if not compiler.exists():
        # One command: a second one would not merge into the same namespace package.
        subprocess.run([*pip, "install", "--no-deps", "--target", compiler, *COMPILER_PACKAGES], check=True)
    assemblers.mkdir(parents=True, exist_ok=True)
    tools = {package: (assemblers / f"ptxas-{package.split('==')[1]}", "/bin/ptxas") for package in ASSEMBLER_PACKAGES}
    tools[DISASSEMBLER_PACKAGE] = (toolchain / "nvdisasm", "/bin/nvdisasm")
    for package, (destination, program) in tools.items():
        if destination.exists():
            continue
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([*pip, "download", "--no-deps", "--dest", directory, package], check=True)
            with zipfile.ZipFile(next(Path(directory).glob("*.whl"))) as wheel:
                name = next(n for n in wheel.namelist() if n.endswith(program))
                destination.write_bytes(wheel.read(name))
        destination.chmod(0o755)
    print(f"compiler, {len(ASSEMBLER_PACKAGES)} assemblers and disassembler are ready")


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("fetch", "build", "check", "check-all"))
    parser.add_argument("--toolchain", type=Path, default=TOOLCHAIN, help="directory that `fetch` fills")
    arguments = parser.parse_args()
    if arguments.command == "fetch":
        fetch(arguments.toolchain)
    elif arguments.command == "build":
        build(arguments.toolchain)
    else:
        check_hashes()
        if (arguments.toolchain / "compiler").exists():
            check_rebuild(arguments.toolchain)
            check_assemblers(arguments.toolchain, every=arguments.command == "check-all")
            check_machine_code(arguments.toolchain)
            check_first_use(arguments.toolchain)
        else:
            print("no toolchain (`python cuda/build.py fetch`): neither rebuilt nor assembled")


if __name__ == "__main__":
    main()
