//go:build race

package wire

// poison says that released memory is overwritten.
const poison = true
