// Package opensessions records in the store which sessions a replica has open at servers over HTTP. If the
// replica dies, another one ends these sessions.
package opensessions
