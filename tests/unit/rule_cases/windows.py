"""Cases of the rules: wheels for Windows."""

from audit_cases import Case
from pe_samples import dll

NAME = "demo-1.0-cp312-cp312-win_amd64.whl"
ABI3 = "demo-1.0-cp312-abi3-win_amd64.whl"
BOTH = "demo-1.0-cp315-abi3.abi3t-win_amd64.whl"
MODULE = "demo/_ext.cp312-win_amd64.pyd"
USUAL = (
    "python312.dll",
    "KERNEL32.dll",
    "WINSPOOL.DRV",
    "VCRUNTIME140.dll",
    "api-ms-win-crt-heap-l1-1-0.dll",
)
ADDS = b"import os\nos.add_dll_directory(os.path.join(os.path.dirname(__file__), os.pardir, 'demo.libs'))\n"
HASH = "-0123456789abcdef0123456789abcdef"

CASES = {
    "a DLL that nobody has": Case(
        "GF218", {MODULE: dll(*USUAL, "cublas64_12.dll", "foo.dll")},
        {MODULE: dll(*USUAL, "foo.dll", delayed=["bar.dll"]), "demo/foo.dll": dll("kernel32.dll")}, name=NAME,
    ),
    "a DLL that only code can find": Case(
        "GF218", {MODULE: dll(*USUAL, "cublas64_12.dll"), "demo/__init__.py": ADDS},
        {MODULE: dll(*USUAL, delayed=["cublas64_12.dll"])}, name=NAME,
    ),
    "the C++ runtime": Case(
        "GF218", {MODULE: dll(*USUAL, "MSVCP140.dll")},
        {MODULE: dll(*USUAL, f"msvcp140{HASH}.dll"), f"demo/msvcp140{HASH}.dll": dll("kernel32.dll")}, name=NAME,
    ),
    "the debug runtime": Case(
        "GF218", {MODULE: dll(*USUAL, "VCRUNTIME140D.dll")}, {MODULE: dll(*USUAL)}, name=NAME,
    ),
    "a driver's DLL": Case(
        "GF218", {MODULE: dll(*USUAL, "nvcuda.dll")}, {MODULE: dll(*USUAL, delayed=["nvcuda.dll"])}, name=NAME,
    ),
    "a DLL in another folder": Case(
        "GF308", {MODULE: dll(*USUAL, f"foo{HASH}.dll"), f"demo.libs/foo{HASH}.dll": dll()},
        {"demo/__init__.py": ADDS}, name=NAME,
    ),
    "a DLL in the folder of NVIDIA's package": Case(
        "GF308", {MODULE: dll(*USUAL, "cublas64_12.dll")}, {"demo/__init__.py": ADDS},
        requires=["nvidia-cublas-cu12"], name=NAME,
    ),
    "a DLL under two names": Case(
        "GF112", {MODULE: dll("foo.dll"), "demo/foo.dll": dll(), f"demo.libs/foo{HASH}.dll": dll()},
        {f"demo.libs/foo{HASH}.dll": None}, name=NAME,
    ),
    "a DLL for another processor": Case(
        "GF512", {MODULE: dll(*USUAL, machine="win_arm64")},
        {MODULE: dll(*USUAL), "demo/arm64/foo.dll": dll(machine="win_arm64")}, name=NAME,
    ),
    "the DLL of one Python in a wheel for many": Case(
        "GF513", {"demo/_ext.pyd": dll("python312.dll")}, {"demo/_ext.pyd": dll("python3.dll")}, name=ABI3,
    ),
    "the DLL with the GIL in a wheel for all": Case(
        "GF513", {"demo/_ext.pyd": dll("python3.dll")}, {"demo/_ext.pyd": dll("python3t.dll")}, name=BOTH,
    ),
    "the DLL of Python 3.15 in a wheel for 3.12": Case(
        "GF513", {"demo/_ext.pyd": dll("python3t.dll")}, {"demo/_ext.pyd": dll("python3.dll")}, name=ABI3,
    ),
    "a module that is named for one Python": Case(
        "GF504", {"demo/_ext.cp315t-win_amd64.pyd": dll("python3t.dll")},
        {"demo/_ext.cp315t-win_amd64.pyd": None, "demo/_ext.pyd": dll("python3t.dll")}, name=BOTH,
    ),
    "the DLL of another Python": Case(
        "GF513", {MODULE: dll("python311.dll")}, {MODULE: dll("python312.dll")}, name=NAME,
    ),
}  # fmt: skip
