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
{{- toYaml (merge $own (default dict .labels) .root.Values.commonLabels) }}
{{- end }}

{{- /* The metadata of an object: root, and where they are wanted suffix, name, namespace, component, labels, annotations. */}}
{{- define "gpubench.metadata" -}}
{{- $name := printf "%s%s" (include "gpubench.fullname" .root) (default "" .suffix) }}
{{- $metadata := dict "name" (default $name .name) "labels" (include "gpubench.labels" . | fromYaml) }}
{{- with .namespace }}
{{- $_ := set $metadata "namespace" . }}
{{- end }}
{{- with merge (dict) (default dict .annotations) .root.Values.commonAnnotations }}
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
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The PriorityClass of the pods that measure; empty where they have none. */}}
{{- define "gpubench.gangPriorityClass" -}}
{{- with .Values.jobs.priorityClass }}
{{- if .create }}
{{- default (printf "%s-gangs" (include "gpubench.fullname" $)) .name }}
{{- else }}
{{- .name }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Not empty on OpenShift, which gives each namespace users and groups of its own and refuses others. */}}
{{- define "gpubench.onOpenShift" -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" }}true{{ end }}
{{- end }}

{{- /* The user's values, over what passes the level `restricted` of Pod Security. */}}
{{- define "gpubench.containerSecurityContext" -}}
{{- $own := dict "allowPrivilegeEscalation" false "capabilities" (dict "drop" (list "ALL")) "readOnlyRootFilesystem" true }}
{{- toYaml (merge (deepCopy .Values.securityContext) $own) }}
{{- end }}

{{- define "gpubench.podSecurityContext" -}}
{{- $own := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- if not (include "gpubench.onOpenShift" .) }}
{{- $own = merge $own (dict "runAsUser" 65532 "runAsGroup" 65532) }}
{{- end }}
{{- toYaml (merge (deepCopy .Values.podSecurityContext) $own) }}
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
