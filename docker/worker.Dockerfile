# lockstep/worker. Build it in the root of the tree: docker build -f docker/worker.Dockerfile .
# The image has two uses. Pods copy the agent and its helpers, static files, from it. Jobs that have
# no image run in it, with the built-in trainer.

# Both Dockerfiles have the same lines up to the programs, so they share these layers.
ARG BASE=docker.io/library/debian:bookworm-slim
FROM $BASE AS toolchain
ARG XDG_CACHE_HOME=/root/.cache
ENV XDG_CACHE_HOME=$XDG_CACHE_HOME
# Another module proxy, and a file of certificate authorities, for networks that need them.
ARG GOPROXY
ARG SSL_CERT_FILE
WORKDIR /src
COPY tools/lib tools/lib
RUN tools/lib/build-deps

FROM toolchain AS build
ARG GOPROXY
ARG SSL_CERT_FILE
COPY . .
# To use a ccache of the same compiler, mount it and name it here. Its hashes include LANG.
ARG CCACHE_DIR=/var/cache/ccache
ARG LANG
RUN --mount=type=cache,id=lockstep-ccache,target=/var/cache/ccache \
    docker/compile /out -DLOCKSTEP_PMIX=ON -DLOCKSTEP_S3=ON \
      lockstep-agent lockstep-pmix lockstep-s3 lockstep lockstep-trainer

FROM $BASE
# The shared libraries of lockstep-trainer. Package lists and logs are removed to save space.
RUN apt-get update && \
    apt-get install -y --no-install-recommends libdnnl2 libgloo0 libgomp1 libssl3 && \
    rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* && \
    ln -s /lockstep-agent /usr/local/bin/lockstep-agent
COPY --from=build /out/lockstep /out/lockstep-trainer /usr/local/bin/
COPY --from=build /out/lockstep-agent /out/lockstep-pmix /out/lockstep-s3 /
USER 65532:65532
CMD ["lockstep", "--help"]
LABEL org.opencontainers.image.title="Lockstep worker" \
      org.opencontainers.image.description="The agent of TrainingJobs, and the built-in trainer" \
      org.opencontainers.image.licenses="Apache-2.0"
