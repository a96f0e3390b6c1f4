#!/bin/bash
# npm packages that tests run beside kda, installed once and outside the source tree.
#
#   npm_packages.sh PACKAGE@VERSION...
#
# Prints the folder whose node_modules has them: $KDA_NPM, or build/npm. What is missing is installed there, without
# running its scripts and without optional dependencies. Where that cannot be (no npm, no network): one line on stderr
# that says why, and exit 77, which ctest takes as skipped.
set -uo pipefail
[ $# -gt 0 ] || { echo "usage: npm_packages.sh PACKAGE@VERSION..." >&2; exit 2; }
folder=${KDA_NPM:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/npm}

skip() {
  echo "skipped: $*" >&2
  exit 77
}

# Those of the arguments that are not in the folder in their version.
missing() {
  local package
  for package in "$@"; do
    FILE="$folder/node_modules/${package%@*}/package.json" VERSION=${package##*@} node -e '
      const fs = require("fs");
      let found;
      try { found = JSON.parse(fs.readFileSync(process.env.FILE)).version; } catch {}
      process.exit(found === process.env.VERSION ? 0 : 1);' || echo "$package"
  done
}

command -v node >/dev/null || skip "node is not installed (Debian: apt-get install nodejs npm)"
mkdir -p "$folder" 2>/dev/null || skip "cannot write $folder"
exec 9>"$folder/.lock" || skip "cannot write $folder"
flock 9 # tests run side by side
if [ -n "$(missing "$@")" ]; then
  command -v npm >/dev/null || skip "no $(missing "$@" | head -1) in $folder, and npm is not installed (Debian: apt-get install npm)"
  # The log goes to a file: npm explains itself in many lines.
  [ -e "$folder/package.json" ] || echo '{"private": true}' >"$folder/package.json"
  (cd "$folder" && timeout 400 npm install --save-exact --ignore-scripts --omit=optional --no-audit --no-fund --no-package-lock \
    --fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-timeout=60000 "$@") >"$folder/install.log" 2>&1 9>&-
  left=$(missing "$@" | head -1)
  [ -z "$left" ] || skip "npm could not install $left ($folder/install.log says why)"
fi
echo "$folder"
