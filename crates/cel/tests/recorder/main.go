// Reads lines of `{"expr", "schema"}` and answers each with what the libraries of kube-apiserver make of
// it; ../recorded/README.md says what an answer holds.
//
//	recorder SCHEMAS.json < CASES > ANSWERS
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// What kube-apiserver lets one expression cost.
const callLimit = 1_000_000

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: recorder SCHEMAS.json < CASES > ANSWERS")
	}
	sites := sites(os.Args[1])
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<22)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	written := json.NewEncoder(out)
	written.SetEscapeHTML(false)
	for in.Scan() {
		var asked struct{ Expr, Schema string }
		must(json.Unmarshal(in.Bytes(), &asked))
		site, ok := sites[asked.Schema]
		if !ok {
			log.Fatalf("there is no schema %q", asked.Schema)
		}
		answer := site.answer(asked.Expr)
		answer["expr"], answer["schema"] = asked.Expr, asked.Schema
		must(written.Encode(answer))
	}
	must(in.Err())
}

// A schema, what it declares, and the value that `self` has.
type site struct {
	environment *cel.Env
	declared    *apicel.DeclType
	self        ref.Val
}

func sites(path string) map[string]*site {
	text, err := os.ReadFile(path)
	must(err)
	var schemas map[string]struct {
		Schema v1.JSONSchemaProps
		Root   bool
		Self   json.RawMessage
	}
	must(json.Unmarshal(text, &schemas))
	sites := map[string]*site{}
	for name, given := range schemas {
		var internal apiextensions.JSONSchemaProps
		must(v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&given.Schema, &internal, nil))
		structural, err := schema.NewStructural(&internal)
		must(err)
		// A name as the compiler of rules gives it, which numbers them.
		declared := model.SchemaDeclType(structural, given.Root).MaybeAssignTypeName("selfType1")
		set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 36)).Extend(environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions:        []cel.EnvOption{cel.Variable("self", declared.CelType())},
			DeclTypes:         []*apicel.DeclType{declared},
		})
		must(err)
		if given.Root {
			structural = model.WithTypeAndObjectMeta(structural)
		}
		// Whole numbers stay whole, as in an object that is stored.
		var self any
		must(utiljson.Unmarshal(given.Self, &self))
		sites[name] = &site{
			environment: set.StoredExpressionsEnv(),
			declared:    declared,
			self:        common.UnstructuredToVal(self, &model.Structural{Structural: structural}),
		}
	}
	return sites
}

func (s *site) answer(expression string) map[string]any {
	answer := map[string]any{}
	compiled, issues := s.environment.Compile(expression)
	if issues.Err() != nil {
		answer["compile"] = unnumbered(issues.String())
		return answer
	}
	estimator := &library.CostEstimator{SizeEstimator: &sizes{s.declared}}
	program, err := s.environment.Program(compiled,
		cel.CostLimit(callLimit), cel.CostTracking(estimator), cel.InterruptCheckFrequency(100))
	if err != nil {
		answer["program"] = unnumbered(err.Error())
		return answer
	}
	estimate, err := s.environment.EstimateCost(compiled, estimator)
	must(err)
	answer["estimate"] = estimate.Max
	answer["type"] = unnumbered(compiled.OutputType().String())
	value, details, err := program.Eval(map[string]any{"self": s.self})
	if err != nil {
		answer["error"] = unnumbered(err.Error())
	} else {
		answer["result"] = shown(value)
	}
	if details != nil && details.ActualCost() != nil {
		answer["cost"] = *details.ActualCost()
	}
	return answer
}

var numbered = regexp.MustCompile(`selfType[0-9]+`)

func unnumbered(text string) string {
	return numbered.ReplaceAllString(text, "selfType")
}

// What a schema says of sizes, as the compiler of rules takes it.
type sizes struct{ root *apicel.DeclType }

func (s *sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if len(element.Path()) == 0 {
		return nil
	}
	at := s.root
	for _, name := range element.Path()[1:] {
		switch name {
		case "@items", "@values":
			at = at.ElemType
		case "@keys":
			at = at.KeyType
		default:
			field, ok := at.Fields[name]
			if !ok {
				return nil
			}
			at = field.Type
		}
		if at == nil {
			return nil
		}
	}
	return &checker.SizeEstimate{Min: 0, Max: uint64(at.MaxElements)}
}

func (s *sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// A value with its kind.
func shown(value ref.Val) any {
	switch value := value.(type) {
	case types.Null:
		return map[string]any{"null": true}
	case types.Bool:
		return map[string]any{"bool": bool(value)}
	case types.Int:
		return map[string]any{"int": strconv.FormatInt(int64(value), 10)}
	case types.Uint:
		return map[string]any{"uint": strconv.FormatUint(uint64(value), 10)}
	case types.Double:
		return map[string]any{"double": strconv.FormatFloat(float64(value), 'g', -1, 64)}
	case types.String:
		return map[string]any{"string": string(value)}
	case types.Bytes:
		return map[string]any{"bytes": hex.EncodeToString(value)}
	case types.Timestamp:
		return map[string]any{"timestamp": value.Time.Format(time.RFC3339Nano)}
	case types.Duration:
		return map[string]any{"duration": seconds(value.Duration)}
	case *types.Optional:
		if !value.HasValue() {
			return map[string]any{"none": true}
		}
		return map[string]any{"some": shown(value.GetValue())}
	case *types.Type:
		return map[string]any{"type": value.String()}
	case traits.Lister:
		items := []any{}
		for each := value.Iterator(); each.HasNext() == types.True; {
			items = append(items, shown(each.Next()))
		}
		return map[string]any{"list": items}
	case traits.Mapper:
		entries := map[string]any{}
		for each := value.Iterator(); each.HasNext() == types.True; {
			key := each.Next()
			if key == nil {
				// The iterator stumbles over fields that the schema does not declare.
				return nil
			}
			entries[fmt.Sprint(key.Value())] = shown(value.Get(key))
		}
		return map[string]any{"map": entries}
	}
	return map[string]any{"other": value.Type().TypeName()}
}

// Seconds with as many decimals as it has; a double has not enough of them.
func seconds(duration time.Duration) string {
	sign, nanos := "", uint64(duration)
	if duration < 0 {
		sign, nanos = "-", -nanos
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%s%d.%09d", sign, nanos/1e9, nanos%1e9), "0"), ".") + "s"
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
