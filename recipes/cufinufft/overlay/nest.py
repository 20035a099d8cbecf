"""Move what CMake builds to `vendor/finufft`, and put this folder's CMakeLists.txt in its place."""

import shutil
from pathlib import Path

vendored = Path("vendor", "finufft")
vendored.mkdir(parents=True)
for name in ("CMakeLists.txt", "cmake", "include", "src"):
    Path(name).rename(vendored / name)
shutil.copytree("python", vendored / "python")  # its Python files are packed from where they were
shutil.copy(Path(__file__).with_name("CMakeLists.txt"), "CMakeLists.txt")
