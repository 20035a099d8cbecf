# The CPythons that a Debian release does not have itself, each in manylinux's place, and nothing else:
# build.Dockerfile and test.Dockerfile take /opt/python from here.
# BASE is of the machine type that compiles, and TRIPLET ("aarch64-linux-gnu") is that of the Pythons. Only what was
# compiled runs under emulation.
ARG BASE
# hadolint ignore=DL3006
FROM ${BASE} AS compile
ARG IMAGE
LABEL dev.gpuforge.image=${IMAGE}
COPY lean.cfg /etc/dpkg/dpkg.cfg.d/lean
ARG ARCHITECTURE
ARG COMPILER
# hadolint ignore=DL3008
RUN dpkg --add-architecture "${ARCHITECTURE}" \
 && apt-get update \
 && apt-get install -y --no-install-recommends "${COMPILER}" make xz-utils "libbz2-dev:${ARCHITECTURE}" \
      "libffi-dev:${ARCHITECTURE}" "liblzma-dev:${ARCHITECTURE}" "libncurses-dev:${ARCHITECTURE}" \
      "libreadline-dev:${ARCHITECTURE}" "libsqlite3-dev:${ARCHITECTURE}" "libssl-dev:${ARCHITECTURE}" \
      "uuid-dev:${ARCHITECTURE}" "zlib1g-dev:${ARCHITECTURE}" \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
ARG TRIPLET
# The names that a build finds in sysconfig: gcc, not aarch64-linux-gnu-gcc.
RUN for tool in ar cpp g++ gcc readelf strip; do ln -s "/usr/bin/${TRIPLET}-${tool}" "/usr/local/bin/${tool}" || exit; done
COPY sources /sources
COPY compile-cpython.sh /
ARG PYTHONS
RUN for minor in ${PYTHONS}; do sh /compile-cpython.sh "$minor" || exit; done

FROM scratch
ARG IMAGE
LABEL dev.gpuforge.image=${IMAGE}
COPY --from=compile /opt/python /opt/python
