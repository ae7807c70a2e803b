// Package hostconfig finds the files in which hosts (Claude Desktop, editors, agents) keep their lists of MCP
// servers, and adds the gateway to such a list or removes it.
//
// Guarantees:
//
//   - An edit changes only the bytes of its entry: comments, order, indentation, trailing commas and line ends of
//     everything else stay as they are.
//   - After an edit the new file is parsed and compared with the old one. If anything but the intended entry was
//     added or removed, the edit is an error.
//   - Adding an existing entry changes nothing.
//
// [Host.Connect], [Host.Disconnect] and [Host.Entry] are pure: they work on the content of a file. [File] is for
// reading and replacing files. The package holds no state.
package hostconfig
