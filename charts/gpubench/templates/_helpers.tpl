{{- /* SPDX-License-Identifier: Apache-2.0 */}}
{{- define "gpubench.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* At most 50 characters, so that every suffix fits a label's 63; a release may have dots, a Service may not. */}}
{{- define "gpubench.fullname" -}}
{{- $name := include "gpubench.name" . }}
{{- $full := .Values.fullnameOverride }}
{{- if not $full }}
{{- $full = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- end }}
{{- $full | replace "." "-" | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "gpubench.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gpubench.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- /* Labels of an object: no label of a user's replaces one by which the chart finds its own. */}}
{{- define "gpubench.labels" -}}
{{- $own := include "gpubench.selectorLabels" .root | fromYaml }}
{{- $_ := set $own "app.kubernetes.io/component" (default "operator" .component) }}
{{- $_ := set $own "app.kubernetes.io/version" .root.Chart.AppVersion }}
{{- $_ := set $own "app.kubernetes.io/managed-by" .root.Release.Service }}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") }}
{{- toYaml (merge $own (default dict .labels) (default dict .root.Values.commonLabels)) }}
{{- end }}

{{- /* The metadata of an object: root, and where they are wanted suffix, name, namespace, component, labels, annotations. */}}
{{- define "gpubench.metadata" -}}
{{- $name := printf "%s%s" (include "gpubench.fullname" .root) (default "" .suffix) }}
{{- $metadata := dict "name" (default $name .name) "labels" (include "gpubench.labels" . | fromYaml) }}
{{- with .namespace }}
{{- $_ := set $metadata "namespace" . }}
{{- end }}
{{- with merge (dict) (default dict .annotations) (default dict .root.Values.commonAnnotations) }}
{{- $_ := set $metadata "annotations" . }}
{{- end }}
{{- toYaml $metadata }}
{{- end }}

{{- define "gpubench.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "gpubench.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: say which ServiceAccount the operator has, or set serviceAccount.create" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "gpubench.image" -}}
{{- with .Values.image }}
{{- if regexMatch "(:[^/]*|@.*)$" .repository }}
{{- fail (printf "image.repository: %s has a tag or a digest: put it into image.tag or image.digest" .repository) }}
{{- end }}
{{- $whole := ternary (printf "%s@%s" .repository .digest) (printf "%s:%s" .repository (default $.Chart.AppVersion .tag)) (not (empty .digest)) }}
{{- include "gpubench.pulledFrom" (dict "root" $ "value" "image.repository" "image" $whole) }}
{{- end }}
{{- end }}

{{- /* An image by its whole name, from global.imageRegistry where that is set. As Docker does, the first part of a name
is a registry where it has a dot or a colon, or is localhost. */}}
{{- define "gpubench.pulledFrom" -}}
{{- $image := .image }}
{{- with (default dict .root.Values.global).imageRegistry }}
{{- $image = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $image "") }}
{{- end }}
{{- if not (regexMatch "^(([a-z0-9.-]+|\\[[0-9a-f:]+\\])(:[0-9]+)?/)?[a-z0-9._-]+(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$" $image) }}
{{- fail (printf "%s: %s is no image: write REGISTRY/PATH with your own registry, all in lower case but for a tag" .value $image) }}
{{- end }}
{{- $image }}
{{- end }}

{{- /* The PriorityClass of the pods that measure; empty where they have none. */}}
{{- define "gpubench.gangPriorityClass" -}}
{{- with .Values.jobs.priorityClass }}
{{- if .create }}
{{- /* Neither value nor policy of a PriorityClass can be changed, so that another value is another object. */}}
{{- $preempts := ternary "-preempts" "" (eq .preemptionPolicy "PreemptLowerPriority") }}
{{- default (printf "%s-gangs-%d%s" (include "gpubench.fullname" $) (int64 .value) $preempts) .name }}
{{- else }}
{{- default "" .name }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Not empty on OpenShift, which gives each namespace users and groups of its own and refuses others. */}}
{{- define "gpubench.onOpenShift" -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" }}true{{ end }}
{{- end }}

{{- define "gpubench.podSecurityContext" -}}
{{- $context := default dict .Values.podSecurityContext }}
{{- range $field := ternary (list "runAsUser" "runAsGroup") list (not (empty (include "gpubench.onOpenShift" .))) }}
{{- if eq (toString (get $context $field)) "65532" }}
{{- $context = omit $context $field }}
{{- end }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{- /* The rules of some scopes, from the operator's own table. */}}
{{- define "gpubench.rules" -}}
{{- $table := .root.Files.Get "files/permissions.yaml" | fromYaml }}
{{- $rules := list }}
{{- range .scopes }}
{{- $rules = concat $rules (get $table .) }}
{{- end }}
{{- toYaml $rules }}
{{- end }}

{{- define "gpubench.roleAndBinding" -}}
{{- $kind := ternary "Role" "ClusterRole" (not (empty .namespace)) }}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  {{- include "gpubench.metadata" . | nindent 2 }}
rules:
  {{- include "gpubench.rules" . | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  {{- include "gpubench.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ include "gpubench.fullname" .root }}{{ .suffix }}
subjects:
  - kind: ServiceAccount
    name: {{ include "gpubench.serviceAccountName" .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- /* Our resources of one scope, with their plurals, from the CRDs themselves. */}}
{{- define "gpubench.resources" -}}
{{- $found := list }}
{{- range $path, $_ := .root.Files.Glob "files/crds/*.yaml" }}
{{- $spec := ($.root.Files.Get $path | fromYaml).spec }}
{{- if eq $spec.scope $.scope }}
{{- $found = append $found $spec.names.plural }}
{{- end }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{- /* Not empty where the release has admission policies: by default where it has cluster-wide roles, too. */}}
{{- define "gpubench.hasPolicies" -}}
{{- if ternary .Values.rbac.create .Values.policies.enabled (kindIs "string" .Values.policies.enabled) }}true{{ end }}
{{- end }}

{{- define "gpubench.policyBinding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  {{- include "gpubench.metadata" (dict "root" .root "suffix" .suffix "component" "policy") | nindent 2 }}
spec:
  policyName: {{ include "gpubench.fullname" .root }}{{ .suffix }}
  validationActions: [Deny]
  {{- with .namespaces }}
  matchResources:
    namespaceSelector:
      matchExpressions:
        - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
  {{- end }}
{{- end }}

{{- /* CEL: whether a list of names, in which a * at the end stands for anything, has this one. */}}
{{- define "gpubench.allows" -}}
{{ toJson (first .) }}.exists(one, one == {{ last . }} || (one.endsWith('*') && {{ last . }}.startsWith(one.substring(0, one.size() - 1))))
{{- end }}

{{- /* CEL: the same of a namespace and its ServiceAccount, where the namespace may be a * in the list. */}}
{{- define "gpubench.allowsAccount" -}}
{{ toJson (first .) }}.exists(one, one in [{{ index . 1 }} + '/' + {{ last . }}, '*/' + {{ last . }}] || (one.endsWith('*') && ({{ index . 1 }} + '/' + {{ last . }}).startsWith(one.substring(0, one.size() - 1))))
{{- end }}

{{- /* CEL: labels of a pod, or of the pods that an object makes. */}}
{{- define "gpubench.podLabels" -}}
(request.resource.resource == 'pods' ? dyn({{ . }}).metadata.?labels :
request.resource.resource == 'podtemplates' ? dyn({{ . }}).?template.?metadata.?labels :
request.resource.resource == 'cronjobs' ? dyn({{ . }}).spec.?jobTemplate.?spec.?template.?metadata.?labels :
dyn({{ . }}).spec.?template.?metadata.?labels).orValue(dyn({}))
{{- end }}

{{- /* How the Prometheus operator scrapes an endpoint. */}}
{{- define "gpubench.scrape" -}}
interval: {{ .interval }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
