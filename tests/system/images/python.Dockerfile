# An image as users have them: Python, and nothing of Lockstep.
FROM debian:bookworm-slim
RUN apt-get update && \
    apt-get install -y --no-install-recommends python3-minimal libpython3-stdlib && \
    rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* && \
    ln -s python3 /usr/bin/python
