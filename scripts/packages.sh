# Installs Debian packages that are missing. Sourced by the scripts beside it.

say() {
  if [ -t 2 ]; then printf '\033[1m==> %s\033[0m\n' "$*" >&2; else printf '==> %s\n' "$*" >&2; fi
}
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# need_packages WHY PACKAGE...: installs those that are not there, and says so first.
need_packages() {
  local why=$1 missing=() package
  shift
  command -v dpkg-query >/dev/null ||
    die "this script installs packages on Debian 12 and its relatives; on another system install $* yourself and build with: cmake --preset release && cmake --build --preset release"
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "these packages are missing: ${missing[*]}; run as root or install sudo"
    as_root=(sudo)
  fi
  say "Installing what $why needs: ${missing[*]}"
  # An old list is good enough when it knows the packages; a fresh machine has none.
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
    "${as_root[@]}" apt-get update -q >&2 || die "apt-get update failed; is there a network?"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2 ||
      die "apt-get could not install: ${missing[*]}"
  fi
}

BUILD_PACKAGES=(g++ cmake ninja-build libfmt-dev nlohmann-json3-dev libcli11-dev)
TEST_PACKAGES=(libgtest-dev pkg-config libpcre2-dev python3 python3-numpy valgrind)

# build PRESET [CMAKE_ARGUMENT...] [-- TARGET...]: configures and builds; shows the compiler's words only when it fails.
build() {
  local preset=$1 options=() log
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  [ $# -eq 0 ] || shift
  mkdir -p build
  log=build/$preset.log
  cmake --preset "$preset" "${options[@]}" >"$log" 2>&1 || { tail -n 30 "$log" >&2; die "configuring failed; the whole output is in $log"; }
  # shellcheck disable=SC2086
  cmake --build --preset "$preset" ${*:+--target "$@"} >"$log" 2>&1 || { grep -E -A12 'error|FAILED' "$log" | head -n 60 >&2; die "the build failed; the whole output is in $log"; }
}
