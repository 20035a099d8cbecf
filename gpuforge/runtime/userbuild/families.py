"""The families of SONAMEs and the forms of GPU code, copied by scripts/copy_to_runtime.py."""

# Runtimes of toolchains, and their families.
FAMILIES = {
    "libacccuda.so": "nvhpc", "libaccdevaux.so": "nvhpc", "libaccdevice.so": "nvhpc",
    "libacchost.so": "nvhpc", "libaccstub.so": "nvhpc", "libcudadevice.so": "nvhpc",
    "libcudaforwrapblas.so": "nvhpc", "libcudafor.so": "nvhpc", "libcudafor2.so": "nvhpc",
    "libcudanvhpc.so": "nvhpc", "libnvacc.so": "nvhpc", "libnvc.so": "nvhpc", "libnvcpumath.so": "nvhpc",
    "libnvcpumath-avx.so": "nvhpc", "libnvcpumath-avx2.so": "nvhpc", "libnvcpumath-avx512f.so": "nvhpc",
    "libnvf.so": "nvhpc", "libnvhpcatm.so": "nvhpc", "libnvhpcman.so": "nvhpc", "libnvomp.so": "nvhpc",
    "libnvmalloc.so": "nvhpc", "libnvstd.so": "nvhpc", "libnvstdpar.so": "nvhpc", "libnvtarget.so": "nvhpc",
    "libpgatm.so": "pgi", "libpgbind.so": "pgi", "libpgc.so": "pgi", "libpgf90.so": "pgi",
    "libpgf902.so": "pgi", "libpgf90rtl.so": "pgi", "libpgftnrtl.so": "pgi", "libpgkomp.so": "pgi",
    "libpgmath.so": "pgi", "libpgmp.so": "pgi", "libpgnuma.so": "pgi", "libpgstdinit.so": "pgi",
    "libgomp.so": "gcc-openmp", "libgomp-plugin-nvptx.so": "gcc-offload",
    "libgomp-plugin-gcn.so": "gcc-offload", "libomp.so": "llvm-openmp", "libomptarget.so": "llvm-openmp",
    "libomptarget.rtl.cuda.so": "llvm-openmp", "libomptarget.rtl.amdgpu.so": "llvm-openmp",
    "libiomp5.so": "intel-openmp", "libiompstubs5.so": "intel-openmp", "libimf.so": "intel",
    "libintlc.so": "intel", "libirc.so": "intel", "libirng.so": "intel", "libsvml.so": "intel",
    "libifcore.so": "intel", "libifport.so": "intel",
}  # fmt: skip

# The families whose runtimes fit their own release only, and the runtimes of OpenMP, of any family.
ONE_RELEASE = frozenset({"nvhpc", "pgi"})
OPENMP = frozenset({"libnvomp.so", "libgomp.so", "libomp.so", "libiomp5.so"})

# NVIDIA's own libraries, which have a CUDA runtime inside by design, and those of the driver.
NVIDIAS = frozenset({
    "libcheckpoint.so", "libcublas.so", "libcublasLt.so", "libcublasmp.so", "libcuda.so",
    "libcudadebugger.so", "libcudnn.so", "libcudnn_adv.so", "libcudnn_adv_infer.so", "libcudnn_adv_train.so",
    "libcudnn_cnn.so", "libcudnn_cnn_infer.so", "libcudnn_cnn_train.so", "libcudnn_engines_precompiled.so",
    "libcudnn_engines_runtime_compiled.so", "libcudnn_engines_tensor_ir.so", "libcudnn_ext.so",
    "libcudnn_graph.so", "libcudnn_heuristic.so", "libcudnn_ops.so", "libcudnn_ops_infer.so",
    "libcudnn_ops_train.so", "libcudss.so", "libcudss_commlayer_nccl.so", "libcudss_commlayer_openmpi.so",
    "libcudss_mtlayer_gomp.so", "libcufft.so", "libcufftMp.so", "libcufftw.so", "libcufile.so",
    "libcufile_rdma.so", "libcupti.so", "libcurand.so", "libcusolver.so", "libcusolverMg.so",
    "libcusolverMp.so", "libcusparse.so", "libcusparseLt.so", "libcutensor.so", "libcutensorMg.so",
    "libcutensorMp.so", "libmathdx.so", "libnccl.so", "libnppc.so", "libnppial.so", "libnppicc.so",
    "libnppidei.so", "libnppif.so", "libnppig.so", "libnppim.so", "libnppist.so", "libnppisu.so",
    "libnppitc.so", "libnpps.so", "libnvJitLink.so", "libnvToolsExt.so", "libnvblas.so", "libnvcomp.so",
    "libnvcudla.so", "libnvcuvid.so", "libnvfatbin.so", "libnvidia-cfg.so", "libnvidia-encode.so",
    "libnvidia-fbc.so", "libnvidia-gpucomp.so", "libnvidia-ml.so", "libnvidia-nvvm.so",
    "libnvidia-opencl.so", "libnvidia-ptxjitcompiler.so", "libnvidia-sandboxutils.so", "libnvjpeg.so",
    "libnvoptix.so", "libnvperf_host.so", "libnvperf_target.so", "libnvrtc-builtins.alt.so",
    "libnvrtc-builtins.so", "libnvrtc.alt.so", "libnvrtc.so", "libnvshmem_host.so", "libnvtx3interop.so",
    "libnvvm.so", "libpcsamplingutil.so",
})  # fmt: skip

# The beginning of the names of NVIDIA's projects.
PROJECTS = "nvidia-"

# The first bytes of each form of GPU code.
GPU_CODE = {
    "fatbin": rb"\x50\xed\x55\xba\x01\x00\x10\x00",
    "cubin": rb"\x7fELF[\x01\x02]\x01.{12}\xbe\x00",
    "AMD GPU": rb"\x7fELF\x02\x01.{12}\xe0\x00",
    "Intel GPU": rb"\x7fELF[\x01\x02]\x01.{12}\xcd\x00",
    "LTO-IR": rb"\A\xed\x43\x4e\x7f|\xed\x43\x4e\x7f[\x01-\x0f].[\x01-\x0f].[\x01-\x0f].[\x01-\x7f].\x18\x00",
    "Tile IR": rb"\x7fTileIR\x00",
    "clang offload bundle": rb"__CLANG_OFFLOAD_BUNDLE__[\x01-\xff]\x00{7}",
    "compressed clang offload bundle": rb"CCOB[\x01-\x03]\x00[\x00-\x02]\x00",
    "LLVM offload binary": rb"\x10\xff\x10\xad[\x01-\x03]\x00\x00\x00",
    "SPIR-V": rb"\x03\x02\x23\x07\x00[\x00-\x06]\x01\x00|\x07\x23\x02\x03\x00\x01[\x00-\x06]\x00",
}
