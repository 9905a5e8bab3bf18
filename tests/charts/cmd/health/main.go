// SPDX-License-Identifier: Apache-2.0

// Command health says what Argo CD's Lua and Flux' kstatus make of objects, by the interpreter and the package of theirs.
//
// Argo CD runs gopher-lua with the libraries base and table, and the object as `obj`. Helm 4 waits by kstatus, too.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type question struct {
	Scripts map[string]string           `json:"scripts"` // by kind
	Objects []unstructured.Unstructured `json:"objects"`
}

type answer struct {
	Argo    string `json:"argo"`
	Message string `json:"message"`
	Kstatus string `json:"kstatus"`
}

func main() {
	var asked question
	must(json.NewDecoder(os.Stdin).Decode(&asked))
	answers := []answer{}
	for _, object := range asked.Objects {
		bare, err := status.Compute(&object)
		must(err)
		health, message := run(asked.Scripts[object.GetKind()], object.Object)
		answers = append(answers, answer{health, message, string(bare.Status)})
	}
	must(json.NewEncoder(os.Stdout).Encode(answers))
}

func run(script string, object map[string]any) (string, string) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{"": lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		must(state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	state.SetGlobal("obj", value(state, object))
	must(state.DoString(script))
	found, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		must(fmt.Errorf("the script returns %s, no table", state.Get(-1)))
	}
	return lua.LVAsString(found.RawGetString("status")), lua.LVAsString(found.RawGetString("message"))
}

func value(state *lua.LState, of any) lua.LValue {
	switch known := of.(type) {
	case nil:
		return lua.LNil
	case string:
		return lua.LString(known)
	case bool:
		return lua.LBool(known)
	case int64:
		return lua.LNumber(known)
	case float64:
		return lua.LNumber(known)
	case map[string]any:
		table := state.NewTable()
		for name, one := range known {
			table.RawSetString(name, value(state, one))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, one := range known {
			table.Append(value(state, one))
		}
		return table
	}
	panic(fmt.Sprintf("%T is not of JSON", of))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
