// Command dist builds what a release consists of: static binaries in archives, packages for Debian and for RPM-based systems, a
// Homebrew formula, a bill of materials and checksums. "make dist" runs it.
//
// It is a separate module, so that the gateway does not depend on the libraries that write packages.
package main
