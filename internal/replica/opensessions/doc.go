// Package opensessions remembers in the store which sessions a replica has open at servers over HTTP, so that another replica ends them when it has died.
package opensessions
