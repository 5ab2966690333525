# An apt of its own, for packages of another architecture or distribution than this machine's.
# Sourced, never run.
# shellcheck shell=bash

# foreign_apt WORK ARCHITECTURE CODENAME: from here on apt-get and apt-cache know that Debian alone,
# think that nothing is installed, and keep all their files under WORK.
foreign_apt() {
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror security
  mirror=$(_mirror bookworm)
  security=$(_mirror bookworm-security)
  _apt_of "$1" "$2" <<EOF
deb [signed-by=$keyring] ${mirror:-http://deb.debian.org/debian} $3 main
deb [signed-by=$keyring] ${mirror:-http://deb.debian.org/debian} $3-updates main
deb [signed-by=$keyring] ${security:-http://deb.debian.org/debian-security} $3-security main
EOF
}

# foreign_ubuntu WORK CODENAME KEYRING: the same for an Ubuntu, for amd64.
foreign_ubuntu() {
  _apt_of "$1" amd64 <<EOF
deb [signed-by=$3] http://archive.ubuntu.com/ubuntu $2 main
deb [signed-by=$3] http://archive.ubuntu.com/ubuntu $2-updates main
deb [signed-by=$3] http://archive.ubuntu.com/ubuntu $2-security main
EOF
}

# _apt_of WORK ARCHITECTURE: with the sources on standard input.
_apt_of() {
  mkdir -p "$1"/{parts,state,lists/partial,cache/archives/partial}
  : >"$1/status"
  cat >"$1/sources.list"
  cat >"$1/apt.conf" <<EOF
APT::Architecture "$2";
APT::Architectures "$2";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::Etc::sourcelist "$1/sources.list";
Dir::Etc::sourceparts "$1/parts";
Dir::State "$1/state";
Dir::State::lists "$1/lists";
Dir::State::status "$1/status";
Dir::Cache "$1/cache";
EOF
  export APT_CONFIG=$1/apt.conf
  apt-get update -q
}

# The mirror that this machine uses for a suite of Debian, so that a local copy is honoured.
_mirror() {
  # shellcheck disable=SC2016 # apt-get fills these in, not the shell
  apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$1" '$1 == suite && $2 == "main" && !seen++ {print $3}'
}
