# The CPythons that a Debian release does not have itself, each in manylinux's place, and nothing else:
# build.Dockerfile and test.Dockerfile take /opt/python from here.
ARG BASE
# hadolint ignore=DL3006
FROM ${BASE} AS compile
ARG IMAGE
LABEL dev.gpuforge.image=${IMAGE}
COPY lean.cfg /etc/dpkg/dpkg.cfg.d/lean
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ make xz-utils libbz2-dev libffi-dev liblzma-dev libncurses-dev \
      libreadline-dev libsqlite3-dev libssl-dev uuid-dev zlib1g-dev \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY sources /sources
COPY compile-cpython.sh /
ARG PYTHONS
RUN for minor in ${PYTHONS}; do sh /compile-cpython.sh "$minor" || exit; done

FROM scratch
ARG IMAGE
LABEL dev.gpuforge.image=${IMAGE}
COPY --from=compile /opt/python /opt/python
