# Two images from one file: `daemon` (the default; no JVM) and `pipeline` (Spark, a JRE and the jars).
# docs/container.md tells how they are built and run. A release pins BASE_IMAGE by digest:
#   --build-arg BASE_IMAGE=python:3.13-slim-bookworm@sha256:...
# Any Debian image with Python 3.11 or newer and its venv module will do.
ARG BASE_IMAGE=python:3.13-slim-bookworm

# What is installed here has the same path in the image, because a virtual environment cannot be moved.
# The secrets are optional: pip's and Maven's own settings, where packages come from a mirror.
FROM ${BASE_IMAGE} AS builder
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY constraints.txt ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    python3 -m venv /build \
    && /build/bin/pip install --quiet --constraint constraints.txt hatchling cyclonedx-bom \
    && python3 -m venv --without-pip /opt/offsetwatch
COPY pyproject.toml README.md ./
COPY exporter exporter
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheel .
# Bytecode without time stamps: the image is read-only, so what is not compiled here is compiled at
# each start and each health check.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    /build/bin/pip --python /opt/offsetwatch/bin/python install --quiet --no-compile \
        --constraint constraints.txt "$(echo /wheel/*.whl)[postgresql,mysql,sql]" \
    && /opt/offsetwatch/bin/python -m compileall -q --invalidation-mode unchecked-hash \
        /opt/offsetwatch/lib \
    && mkdir -p /opt/offsetwatch/share/doc/offsetwatch \
    && /build/bin/cyclonedx-py environment --output-reproducible \
        --output-file /opt/offsetwatch/share/doc/offsetwatch/sbom.cdx.json /opt/offsetwatch

# What both have: somebody to run as, and the folders that are theirs.
FROM ${BASE_IMAGE} AS runtime
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="offsetwatch" \
      org.opencontainers.image.description="Progress and lag of Kafka Connect source connectors and MirrorMaker 2, for Prometheus" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      offsetwatch.sbom="/opt/offsetwatch/share/doc/offsetwatch/sbom.cdx.json"
# Hadoop, inside of Spark, asks the system for the name of its user and ends where there is none.
RUN echo 'offsetwatch:x:65532:65532::/var/lib/offsetwatch:/usr/sbin/nologin' >> /etc/passwd \
    && echo 'offsetwatch:x:65532:' >> /etc/group \
    && mkdir -p /etc/offsetwatch /var/lib/offsetwatch \
    && chown 65532:65532 /var/lib/offsetwatch
ENV PATH=/opt/offsetwatch/bin:${PATH} \
    HOME=/var/lib/offsetwatch \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# The volume: state_dir and history.path of the configuration are to be below it.
WORKDIR /var/lib/offsetwatch
VOLUME ["/var/lib/offsetwatch"]
USER 65532:65532
ENTRYPOINT ["offsetwatch"]

FROM runtime AS daemon
COPY --from=builder /opt/offsetwatch /opt/offsetwatch
EXPOSE 9640 9641
HEALTHCHECK --interval=30s --timeout=15s --start-period=60s --retries=3 \
    CMD ["offsetwatch", "healthcheck", "--config", "/etc/offsetwatch/config.yaml"]
CMD ["run", "--config", "/etc/offsetwatch/config.yaml"]

FROM builder AS pipeline-builder
ARG JRE=openjdk-17-jre-headless
# The distribution's newest, security updates included; the base image's digest is what is pinned.
# Slim images have no folder for manual pages, and a JRE does not install without.
# hadolint ignore=DL3008
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates maven "${JRE}" \
    && rm -rf /var/lib/apt/lists/*
# The product's own way to its jars: it looks for them here, and finds that nothing is to be fetched.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=maven,target=/etc/maven/settings.xml \
    /build/bin/pip --python /opt/offsetwatch/bin/python install --quiet --no-compile \
        --constraint constraints.txt "$(echo /wheel/*.whl)[history]" \
    && /opt/offsetwatch/bin/python -m compileall -q --invalidation-mode unchecked-hash \
        /opt/offsetwatch/lib \
    && OFFSETWATCH_CACHE=/opt/offsetwatch/share/cache /opt/offsetwatch/bin/python -c \
        'from offsetwatch.history.spark.jars import spark_jars; spark_jars()' \
    && rm /opt/offsetwatch/share/cache/jars.lock \
    && /build/bin/cyclonedx-py environment --output-reproducible \
        --output-file /opt/offsetwatch/share/doc/offsetwatch/sbom.cdx.json /opt/offsetwatch \
    && mvn -q -B --file exporter/offsetwatch/history/pom.xml \
        org.cyclonedx:cyclonedx-maven-plugin:2.9.1:makeBom -DoutputFormat=json \
        -DoutputDirectory=/opt/offsetwatch/share/doc/offsetwatch -DoutputName=sbom-jars.cdx

FROM runtime AS pipeline
ARG JRE=openjdk-17-jre-headless
LABEL offsetwatch.sbom.jars="/opt/offsetwatch/share/doc/offsetwatch/sbom-jars.cdx.json"
USER 0:0
# hadolint ignore=DL3008
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install -y --no-install-recommends "${JRE}" \
    && rm -rf /var/lib/apt/lists/*
COPY --from=pipeline-builder /opt/offsetwatch /opt/offsetwatch
ENV OFFSETWATCH_CACHE=/opt/offsetwatch/share/cache
# Spark's and the JVM's own files for a time.
VOLUME ["/tmp"]
USER 65532:65532
CMD ["history", "run", "--continuous", "--config", "/etc/offsetwatch/config.yaml"]

# Without --target: the daemon.
FROM daemon
