// Package config turns gateway.yaml, or a host's mcp.json, into a validated
// [Config].
//
// A file passes through these steps:
//
//	bytes ──parse──▶ yaml.Node tree ──decode──▶ structs ──check──▶ *Config
//	        (package configfile;               (by the tags of the schema;
//	         every node knows its position)     ${…} expanded in scalars)
//
// The schema consists of the struct tags of [Config] and of the structs in it. Key, type,
// default, bounds, the effect of a reload and the line of documentation are declared there and
// nowhere else; [Keys] lists them. A new key needs its field, its use in another package, and a
// line in gateway.yaml.example. docs/configuration.md is generated.
//
// Guarantees:
//
//   - All errors of a file are reported together, as [Errors], each with file, line, column and the
//     path of the key. A Config is returned only if there are no errors.
//   - Work and memory are bounded: the size of the file, the number of values that aliases and
//     merges expand to, and the bytes that ${…} expands to.
//   - Neither an error nor a printed Config shows the value of a [Secret]. An error never shows
//     the result of an expansion.
//
// The package holds no state: every function may be called concurrently. A Config does not change
// after it was returned, except by [Config.Override] and [Config.Retain], whose callers own it.
//
// Rule files are part of the configuration that names them: their errors are reported together,
// each under the name of its file. The caller supplies the language of conditions, see
// [WithConditions].
//
// The package does not search for files and connects to nothing.
package config
