// Times Go's standard library beside app/digest/: lines "name unit p50 p99 samples", as bench_digest.c prints them.
package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"
)

const rounds, bodyBytes = 200, 64 * 1024

func row(name, unit string, samples int, count float64, call func()) {
	times := make([]float64, samples)
	for i := range times {
		begin := time.Now()
		call()
		times[i] = float64(time.Since(begin).Nanoseconds())
	}
	sort.Float64s(times)
	p50, p99 := times[samples/2], times[samples*99/100]
	if unit == "ns" {
		fmt.Printf("%s %s %.2f %.2f %d\n", name, unit, p50/count, p99/count, samples)
	} else {
		fmt.Printf("%s %s %.3f %.3f %d\n", name, unit, count/p50, count/p99, samples)
	}
}

func main() {
	samples, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	text := make([]byte, 64)
	row("round", "ns", samples, rounds, func() {
		for i := 0; i < rounds; i++ {
			digest := sha256.Sum256(text)
			hex.Encode(text, digest[:])
		}
	})
	body, encoded := make([]byte, bodyBytes), make([]byte, base64.StdEncoding.EncodedLen(bodyBytes))
	row("sha256", "GB/s", samples, bodyBytes, func() { sha256.Sum256(body) })
	row("base64", "GB/s", samples, bodyBytes, func() { base64.StdEncoding.Encode(encoded, body) })
}
