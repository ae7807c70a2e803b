// Package config turns gateway.yaml, or a host's mcp.json, into a validated
// [Config].
//
// The life of a file:
//
//	bytes ──parse──▶ yaml.Node tree ──decode──▶ structs ──check──▶ *Config
//	        (YAML, or JSON with comments;      (by the tags of the schema;
//	         every node knows its position)     ${…} expanded on scalars)
//
// The schema is the struct tags of [Config] and what it holds, and the table
// of keys that this version knows but does not serve yet. Key, type, default,
// bounds and the line of documentation stand there and nowhere else; [Keys]
// lists them.
//
// Guarantees:
//
//   - All faults of a file are reported at once, as [Errors], each with file,
//     line, column and the path of the key; a Config is returned only when
//     there is none.
//   - Work and memory are bounded: the file, the number of values that
//     aliases and merges expand to, and the bytes that ${…} expands to.
//   - Neither an error nor a printed Config shows the value of a [Secret]. An
//     error does not show what an expansion put into any value either.
//
// The package holds no state: every function may be called concurrently. A
// Config is not changed after it was returned, save by [Config.Override]; who
// calls that owns the Config.
//
// Files of rules are part of the configuration that names them: their faults are
// reported with its own, under their own names. The language of conditions is
// handed in, by [WithConditions].
//
// It does not look for files, connect to anything, or know what the other
// packages make of a value.
package config
