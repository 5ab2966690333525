"""Makes a package for Alpine of the programs, manual pages, completions and licences."""

import functools

import linux

SUMMARY = "make a package for Alpine"
add_arguments = linux.add_arguments
run = functools.partial(linux.run, "apk")
