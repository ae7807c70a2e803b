// Package docs runs the documentation: whatever a reader may paste is tried here as it is written, and every link is followed.
//
// Each document is a walk: its blocks are used from top to bottom by one reader at one shell, with the real gateway.
//
//   - A document at the top of the repository begins in a copy of the repository, without a gateway that is built; every other in an empty
//     folder, with the gateway in ~/bin. ~/bin is on PATH, if the reader has it.
//   - The reader's home is /home/me (or /Users/me) in what is written, and a fresh folder here. In it are the hosts' files of testdata/home.
//   - ```sh is run line by line, and each line has to succeed, unless the comment at its end says "exit status N". ```console is the same with
//     `$ ` before commands, and what they print below them: … stands for any text in a line, a line with … alone for any lines.
//     With -update what differs is written into the document.
//   - A command that serves (gateway, gateway run, go run ./cmd/gateway) is started and waited for; it serves until the next that serves, or
//     the document's end. A line that speaks to 127.0.0.1:8080 or :9090 finds a gateway there, if need be one with the folder's gateway.yaml,
//     else the demo. Ports are as they are written: each run has a network of its own.
//   - `npx -y PACKAGE` runs the package as it is installed in test/node_modules.
//   - What cannot be run here is in elsewhere_test.go, with the reason and with what is checked in its place.
//   - ```yaml is a configuration, whole or a part (see config_test.go for how parts are completed), and the gateway's loader takes it without a
//     warning. With the name of a file after the word yaml it is also written there, for what follows.
//   - ```json with the servers of a host goes through what `gateway import` does, and where one of them is the gateway the inspector connects to
//     it by this entry. Other JSON has to be JSON.
//   - ```text is for reading only. A block without a word, or with one that is not in kinds, is an error.
package docs
