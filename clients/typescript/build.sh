#!/usr/bin/env bash
# Builds psoup-client in build/typescript, where its packages are installed as well: the sources stay as they are.
#
#   build.sh          layout, types, tests, the package in build/typescript/dist, its size and its files
#   build.sh packages only installs what building needs
#   build.sh format   lays the sources out anew
#
# Node is found by node.sh of the web application.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD

. clients/web/node.sh

mkdir -p build/typescript
exec 9> build/typescript/.building
flock 9
rm -rf build/typescript/{src,tests,out,dist} build/typescript/*.{ts,json,md}
cp -r clients/typescript/{src,tests,package.json,package-lock.json,tsconfig.json,tsconfig.dist.json,vite.config.ts,README.md} LICENSE build/typescript
cp clients/typescript/.prettierrc.json build/typescript
cd build/typescript
if ! cmp -s package-lock.json node_modules/.locked; then
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  cp package-lock.json node_modules/.locked
fi
[ "${1:-}" != packages ] || exit 0
PATH="$PWD/node_modules/.bin:$PATH"
sources=("src/**/*.ts" "tests/**/*.{ts,tsx,mjs}" "vite.config.ts")
if [ "${1:-}" = format ]; then
  cd "$root/clients/typescript"
  exec prettier --log-level=warn --write "${sources[@]}"
fi
prettier --log-level=warn --check "${sources[@]}" || { echo "lay the sources out with: make format" >&2; exit 1; }
mkdir -p src/contract
"$root/.venv/bin/python" -m grpc_tools.protoc -I "$root/protos" --es_out=src/contract \
  --es_opt=target=ts,json_types=true,import_extension=js \
  "$root"/protos/psoup_proto/v1/{sync,queries,types,server,streams,statements}.proto

tsc --noEmit
vite build --mode tests --logLevel warn
grep -q node:test out/tests/main.js || { echo "out/tests/main.js has no tests" >&2; exit 1; }
node --test --test-reporter=dot out/tests/main.js
vite build --logLevel warn
vite build --mode bundle --logLevel warn
vite build --mode react --logLevel warn
vite build --mode preact --logLevel warn
tsc --project tsconfig.dist.json

most=40000
size=$(gzip -9 < dist/bundle.js | wc -c)
if [ "$size" -gt "$most" ]; then
  echo "psoup-client is $size bytes of gzip, and $most are the most" >&2
  exit 1
fi
npm pack --json --loglevel=error --pack-destination out > out/pack.json

# The types, as a program sees them that has the package, and nothing of what the package is built with.
consumer=$(mktemp -d)
trap 'rm -rf "$consumer"' EXIT
mkdir -p "$consumer"/node_modules/{psoup-client,@bufbuild}
tar -xzf out/psoup-client-*.tgz --strip-components=1 -C "$consumer/node_modules/psoup-client"
cp -r node_modules/@bufbuild/protobuf "$consumer/node_modules/@bufbuild"
cp tests/consumer/* "$consumer"
tsc --project "$consumer"
echo "psoup-client: $size bytes in one file, with gzip"
