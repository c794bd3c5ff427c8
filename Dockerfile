# `skout serve` in a container:
#   docker build -t skout .
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/models:/models:ro" skout /models/model.skout
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check \
    -c constraints.txt ".[chem,cli,serve]"

FROM python:3.12-slim
# RDKit draws molecules with these
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libexpat1 libx11-6 libxext6 libxrender1 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /venv /venv
RUN useradd --system --no-create-home --shell /usr/sbin/nologin skout
USER skout
WORKDIR /models
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD \
  ["/venv/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
# Within the container all addresses: what reaches them is for `docker run -p` to say.
ENTRYPOINT ["/venv/bin/skout", "serve", "--host", "0.0.0.0", "--port", "8000"]
