// Package ruleset compiles the rules of a configuration: the policy, the profiles with the tools
// that files define, the endpoints, and the rules for items and results. The gateway makes one
// [Rules] for each configuration in force; verbs that start nothing make one to look at.
//
//	config.Config ──New──▶ Rules ──▶ catalog (policy, profiles), router (results), metatool (scripts), endpoint
//
// The package does no input or output: config has read all files. Whether a connection exists
// or works makes no difference to the rules. Rules are immutable, so they may be used by many
// goroutines at once.
package ruleset
