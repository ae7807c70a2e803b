// Package docs runs the documentation: it runs every command and loads every configuration that a reader may paste, and follows every link.
//
// Each document is a walk: one reader at one shell uses its blocks from top to bottom, with the real gateway.
//
//   - A document in the root folder begins in a copy of the repository without a built gateway. Every other document begins in an empty folder with
//     the gateway in ~/bin. ~/bin is on PATH if the gateway is there.
//   - The reader's home is /home/me (or /Users/me) in documents and a new folder in the test. It contains the hosts' files of testdata/home.
//   - ```sh runs line by line. Each line must succeed, unless the comment at its end says "exit status N". ```console has `$ ` before each command
//     and its output below it: … stands for any text in a line, a line with … alone for any lines. With -update the test writes different output
//     into the document.
//   - A command that serves (gateway, gateway run, go run ./cmd/gateway) is started and waited for. It serves until the next command that serves, or
//     to the document's end. A line that connects to 127.0.0.1:8080 or :9090 finds a gateway there; if necessary the test starts one with the
//     folder's gateway.yaml, otherwise the demo. Ports are as written: each run has its own network.
//   - `npx -y PACKAGE` runs the package that is installed in test/node_modules.
//   - elsewhere_test.go lists the commands that cannot run here, with the reason and the check in their place.
//   - ```yaml is a configuration, complete or a part (config_test.go completes parts). The gateway's loader must accept it without a warning. A file
//     name after the word yaml also writes the block to that file, for the following blocks.
//   - ```json with the servers of a host passes through `gateway import`. If one of the servers is the gateway, the inspector connects to it by this
//     entry. Other JSON must be valid.
//   - ```starlark is a script, or a tool of several calls, whose tests run.
//   - ```text is for reading only. A block without a word after its fence, or with a word that is not in kinds, is an error.
package docs
