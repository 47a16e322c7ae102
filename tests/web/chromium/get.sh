#!/usr/bin/env bash
# Gets the headless Chromium of the npm package @sparticuz/chromium, locked here, into build/chromium/chromium: for machines
# where no other can be installed. Its libraries (libnss3 and the like) must be there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
. clients/web/node.sh

mkdir -p build/chromium
cp tests/web/chromium/package*.json build/chromium
cd build/chromium
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
unpack='import chromium from "@sparticuz/chromium"; process.stdout.write(await chromium.executablePath())'
TMPDIR=$PWD node --input-type=module -e "$unpack"
echo
