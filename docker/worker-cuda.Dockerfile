# lockstep/worker-cuda, at the root of the tree: docker build -f docker/worker-cuda.Dockerfile .
# lockstep/worker with what the trainer opens on GPUs, cuBLASLt and NCCL; the driver is the node's.

ARG BASE=docker.io/library/debian:bookworm-slim
ARG WORKER=docker.io/lockstep/worker:0.1.0
FROM $BASE AS libraries
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip
COPY docker/cuda-libraries.txt /
# The certificates of a proxy on the way to PyPI may be mounted and named here.
ARG PIP_CERT
RUN pip install --no-cache-dir --no-compile --no-deps --require-hashes --target /parts -r /cuda-libraries.txt && \
    mkdir -p /out/lib /out/share/doc && \
    mv /parts/nvidia/cu13/lib/libcublasLt.so.13 /parts/nvidia/nccl/lib/libnccl.so.2 /out/lib/ && \
    for part in nvidia_cublas nvidia_nccl_cu13; do \
      mv /parts/$part-*.dist-info/licenses /out/share/doc/$part || exit; \
    done && \
    rm -rf /parts

FROM $WORKER
# /usr/local/lib is where the dynamic linker looks, once ldconfig has.
COPY --from=libraries /out/ /usr/local/
USER 0:0
RUN ldconfig
USER 65532:65532
# Of the node's driver: libcuda, and NVML, which NCCL asks about links.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
LABEL org.opencontainers.image.title="Lockstep worker with CUDA" \
      org.opencontainers.image.description="The built-in trainer with cuBLASLt and NCCL, for GPUs"
