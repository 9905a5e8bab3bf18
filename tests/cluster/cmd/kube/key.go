// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// writeServiceAccountKey writes a fresh RSA key for signing service-account tokens to the file named by
// the only argument. It is here so that the cluster needs no openssl.
func writeServiceAccountKey() int {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: service-account-key FILE")
		return 2
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err == nil {
		block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
		err = os.WriteFile(os.Args[1], pem.EncodeToMemory(block), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "service-account-key:", err)
		return 1
	}
	return 0
}
