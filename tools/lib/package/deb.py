"""Makes a package for Debian and Ubuntu of the programs, manual pages, completions and licences."""

import functools

import linux

SUMMARY = "make a package for Debian and Ubuntu"
add_arguments = linux.add_arguments
run = functools.partial(linux.run, "deb")
