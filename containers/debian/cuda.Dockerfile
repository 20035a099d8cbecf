# A build image with a CUDA toolkit in it, for manifests that take theirs from the image (provider = "image").
# The toolkit's tree is fetched and assembled on the host: Debian's compiler, NVIDIA's headers and libraries.
ARG BASE
# hadolint ignore=DL3006
FROM ${BASE}
ARG IMAGE
LABEL dev.gpuforge.image=${IMAGE}
ARG TOOLKIT
COPY toolkit /usr/local/cuda-${TOOLKIT}
RUN ln -s "cuda-${TOOLKIT}" /usr/local/cuda
ARG HOST_COMPILER
ENV PATH=/usr/local/cuda/bin:${PATH} \
    CUDA_PATH=/usr/local/cuda \
    CUDAHOSTCXX=/usr/bin/${HOST_COMPILER}
