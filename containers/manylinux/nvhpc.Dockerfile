# manylinux with the NVIDIA HPC SDK (nvc++, nvfortran and its CUDA toolkit). About 10 GB: NVIDIA packages it whole.
# By building it you accept NVIDIA's licence: https://docs.nvidia.com/hpc-sdk/eula/
ARG BASE
# hadolint ignore=DL3006
FROM ${BASE}
ARG IMAGE
LABEL dev.gpuforge.image=${IMAGE}
ARG HPC_SDK
RUN dnf config-manager --add-repo https://developer.download.nvidia.com/hpc-sdk/rhel/nvhpc.repo \
 && dnf install -y --setopt=install_weak_deps=False "nvhpc-${HPC_SDK}" \
 && dnf clean all \
 && rm -rf /var/cache/dnf \
 && ln -sfn "/opt/nvidia/hpc_sdk/Linux_$(uname -m)/${HPC_SDK}" /opt/nvidia/hpc_sdk/current \
 && /opt/nvidia/hpc_sdk/current/compilers/bin/nvc++ --version
ENV PATH=${PATH}:/opt/nvidia/hpc_sdk/current/compilers/bin
