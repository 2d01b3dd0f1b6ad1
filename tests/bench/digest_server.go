// The path /sha256?rounds= of app/digest/ by Go's net/http, for tests/bench/bench_digest_wire.py.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log"
	"net/http"
	"strconv"
)

func main() {
	http.HandleFunc("/sha256", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		rounds, wrong := strconv.Atoi(r.URL.Query().Get("rounds"))
		if err != nil || wrong != nil {
			http.Error(w, "rounds= must be a number", http.StatusBadRequest)
			return
		}
		for i := 0; i < rounds; i++ {
			digest := sha256.Sum256(text)
			text = []byte(hex.EncodeToString(digest[:]))
		}
		w.Write(append(text, '\n'))
	})
	log.Fatal(http.ListenAndServe(":8080", nil))
}
