#!/usr/bin/env bash
# Builds the web application in build/web, where its packages are installed as well: the sources stay as they are.
#
#   build.sh          layout, types, tests, build, and the size of what a browser loads; the files are in
#                     build/web/out/static
#   build.sh format   lays the sources out anew
#
# It uses the sources of psoup-client, which clients/typescript/build.sh builds first. Node is found by node.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD

. clients/web/node.sh

mkdir -p build/web
rm -rf build/web/{src,tests,public,out} build/web/*.{ts,json,html}
cp -r clients/web/{src,tests,public,index.html,package.json,package-lock.json,tsconfig.json,vite.config.ts} build/web
cp clients/web/.prettierrc.json build/web
if [ "${1:-}" = format ]; then clients/typescript/build.sh format; else clients/typescript/build.sh; fi
cd build/web
if ! cmp -s package-lock.json node_modules/.locked; then
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  cp package-lock.json node_modules/.locked
fi
PATH="$PWD/node_modules/.bin:$PATH"
sources=("src/**/*.{ts,tsx,css}" "tests/**/*.ts" "vite.config.ts")
if [ "${1:-}" = format ]; then
  cd "$root/clients/web"
  exec prettier --log-level=warn --write "${sources[@]}"
fi
prettier --log-level=warn --check "${sources[@]}" || { echo "lay the sources out with: make format" >&2; exit 1; }
tsc --noEmit
vite build --mode vectors --logLevel warn
node --test --test-reporter=dot out/vectors/main.js
vite build --logLevel warn
vite build --mode worker --logLevel warn

most=100000
size=$(cat out/static/assets/*.js out/static/sw.js | gzip -9 | wc -c)
if [ "$size" -gt "$most" ]; then
  echo "the script of the web application is $size bytes of gzip, and $most are the most" >&2
  exit 1
fi
echo "web application: $size bytes of script, with gzip"
