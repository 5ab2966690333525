# lockstep/operator. Build it in the root of the tree: docker build -f docker/operator.Dockerfile .
# The image contains two static programs: the operator, and kubectl-lockstep for `helm test`. It has
# no shell, no library and no package manager, and nothing writes a file.

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
# The HTTP library of the operator: curl or cpprestsdk. The second exists as shared libraries only,
# which the image then holds, too.
ARG HTTP=curl
RUN --mount=type=cache,id=lockstep-ccache,target=/var/cache/ccache \
    docker/compile /out -DLOCKSTEP_HTTP=$HTTP lockstep-operator kubectl-lockstep && \
    docker/runtime-root /root-of-image /out/lockstep-operator /out/kubectl-lockstep -- \
      libc6-dev libstdc++-12-dev libgcc-12-dev libssl-dev libc-ares-dev libyaml-cpp-dev libre2-dev \
      libhwloc-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev \
      zlib1g-dev node-preact

FROM scratch
COPY --from=build /root-of-image /
USER 65532:65532
ENTRYPOINT ["/lockstep-operator"]
LABEL org.opencontainers.image.title="Lockstep operator" \
      org.opencontainers.image.description="Runs TrainingJobs on a Kubernetes cluster" \
      org.opencontainers.image.licenses="Apache-2.0"
