# manylinux with a CUDA toolkit: nvcc, the runtime's headers and libraries, CCCL and the driver's stub, not the 7 GB.
ARG BASE
# hadolint ignore=DL3006
FROM ${BASE}
ARG IMAGE
LABEL dev.gpuforge.image=${IMAGE}
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ARG REPOSITORY
ARG TOOLKIT
# The newest gcc that this nvcc takes; manylinux's own is often newer.
ARG TOOLSET
# Further packages, such as libcufft-devel-12-4.
ARG LIBRARIES=""
# The versions within a minor are NVIDIA's to choose: its repository keeps them all.
# hadolint ignore=DL3041,SC2086
RUN dnf config-manager --add-repo "https://developer.download.nvidia.com/compute/cuda/repos/rhel8/${REPOSITORY}/cuda-rhel8.repo" \
 && minor="$(echo "${TOOLKIT}" | tr . -)" \
 && dnf install -y --setopt=install_weak_deps=False \
      "cuda-nvcc-${minor}" "cuda-cudart-devel-${minor}" "cuda-cccl-${minor}" "cuda-driver-devel-${minor}" \
      "cuda-cuobjdump-${minor}" "gcc-toolset-${TOOLSET}-gcc-c++" ${LIBRARIES} \
 && dnf clean all \
 && rm -rf /var/cache/dnf \
 && ln -sfn "cuda-${TOOLKIT}" /usr/local/cuda \
 && /usr/local/cuda/bin/nvcc --version
ENV PATH=/usr/local/cuda/bin:${PATH} \
    CUDA_PATH=/usr/local/cuda \
    CUDAHOSTCXX=/opt/rh/gcc-toolset-${TOOLSET}/root/usr/bin/g++
