# lockstep/worker-cuda. Build it in the root, on a worker image of the same version:
# docker build -f docker/worker-cuda.Dockerfile --build-arg WORKER=lockstep/worker:VERSION .
# The image is lockstep/worker with cuBLASLt and NCCL, which the trainer opens on GPUs. The driver
# comes from the node.

ARG BASE=docker.io/library/debian:bookworm-slim
ARG WORKER
FROM $BASE AS libraries
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip
COPY docker/cuda-libraries.txt /
# To reach PyPI through a proxy, mount the certificates of the proxy and name them here.
ARG PIP_CERT
RUN pip install --no-cache-dir --no-compile --no-deps --require-hashes --target /parts -r /cuda-libraries.txt && \
    mkdir -p /out/lib /out/share/doc && \
    mv /parts/nvidia/cu13/lib/libcublasLt.so.13 /parts/nvidia/nccl/lib/libnccl.so.2 /out/lib/ && \
    for part in nvidia_cublas nvidia_nccl_cu13; do \
      mv /parts/$part-*.dist-info/licenses /out/share/doc/$part || exit; \
    done && \
    rm -rf /parts

FROM $WORKER
# ldconfig makes the dynamic linker search /usr/local/lib.
COPY --from=libraries /out/ /usr/local/
USER 0:0
RUN ldconfig
USER 65532:65532
# Parts of the node's driver: libcuda, and NVML, from which NCCL learns about links.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
LABEL org.opencontainers.image.title="Lockstep worker with CUDA" \
      org.opencontainers.image.description="The built-in trainer with cuBLASLt and NCCL, for GPUs"
