"""Makes a package for Fedora, RHEL and openSUSE of the programs, manual pages, completions and licences."""

import functools

import linux

SUMMARY = "make a package for Fedora, RHEL and openSUSE"
add_arguments = linux.add_arguments
run = functools.partial(linux.run, "rpm")
