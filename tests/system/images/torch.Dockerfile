# An image as users have them: Debian's PyTorch (CPU, Gloo), and nothing of Lockstep.
FROM debian:bookworm-slim
# Most of what it brings is never loaded: its own tests, an LLVM for OpenGL, symbolic algebra.
RUN apt-get update && \
    apt-get install -y --no-install-recommends python3-torch && \
    dpkg --purge --force-depends libtorch-test libllvm15 libgl1-mesa-dri python3-sympy \
      python3-hypothesis iso-codes && \
    rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* && \
    ln -s python3 /usr/bin/python
