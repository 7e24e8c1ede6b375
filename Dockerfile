# The dashboard alone. The Agent Server of the demo is under the Elastic licence 2.0 and not in here.
#
#   docker build -t drainboard .
#   docker run -p 8400:8400 -v drainboard:/data -v ./drainboard.toml:/data/drainboard.toml:ro drainboard
#   docker run -v drainboard:/data -v ./drainboard.toml:/data/drainboard.toml:ro drainboard gate drop-await-approval
#
# It writes to /data and /tmp alone: `docker run --read-only --tmpfs /tmp …` works.
#
# It listens on all interfaces, so it wants a sign-in in the settings, or `serve --host 0.0.0.0 --allow-open`.

FROM node:22-slim AS front-end
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts

FROM python:3.12-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /srv/drainboard
RUN python -m venv .venv
COPY requirements/build.lock requirements/app.lock requirements/
RUN .venv/bin/pip install --require-hashes -r requirements/build.lock \
 && .venv/bin/pip install --require-hashes --no-build-isolation -r requirements/app.lock
COPY . .
COPY --from=front-end /src/node_modules/htmx.org/dist/htmx.min.js static/vendor/htmx.min.js
# Editable: templates, static files and migrations lie beside the package and are found from it.
RUN .venv/bin/pip install --no-deps --no-build-isolation -e . && .venv/bin/python -m compileall -q app

FROM python:3.12-slim
RUN groupadd --gid 10001 drainboard \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data drainboard \
 && install -d -o drainboard -g drainboard /data
COPY --from=build /srv/drainboard /srv/drainboard
ENV PATH=/srv/drainboard/.venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# Settings, database and key: relative paths start here.
WORKDIR /data
VOLUME /data
# By number, so that Kubernetes sees that it is not root.
USER 10001:10001
EXPOSE 8400
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8400/healthz', timeout=4)"]
ENTRYPOINT ["drainboard"]
CMD ["serve", "--host", "0.0.0.0"]
