package search

import (
	"slices"
	"strings"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// stopWords are in so many texts, or say so little about a tool, that they do not count.
var stopWords = setOf(`a about again all also am an and any are as at be been being both but by can could did do does
doing done during each etc either else for from had has have having he her here hers him his how i if in into is it its
itself just ll may me might mine must my neither no nor not of off on once only onto or other our ours out over own
please s same shall she should so some such than that the their theirs them then there these they this those through
thus to too under until up upon us ve very via was we were what whatever when where whether which while who whom whose
why will with within without would yes you your yours
able already another anything available believe best better certain come currently eg
ever every everything exactly give given gives giving go going good great help helpful helps hey hi hello ie im ive
interested kind know let lets like likes look looking lot make makes making many maybe much need needed needs okay one
particular particularly per possible possibly provide provided provides providing really right say see several
something specific suggest sure tell thank thanks thing things think tool tools try trying use used uses using various
want wanted wants way ways well would`)

// abbreviations are words that stand for others, in texts and in queries. A word that the
// stemmer takes for another one stands for itself in a form that it leaves alone.
var abbreviations = pairsOf(`
abbr=abbreviation accts=account acct=account addr=address addrs=address admin=administrator alloc=allocate
analyses=analysis app=application apps=application appt=appointment approx=approximate arg=argument args=argument
async=asynchronous attr=attribute attrs=attribute auth=authentication authn=authentication authorization=authz authorisation=authz
authorize=authz authorise=authz authorized=authz authorizes=authz authorizing=authz avg=average bg=background bin=binary bkg=booking btn=button calc=calculate cert=certificate
certs=certificate cfg=configuration char=character chars=character cmd=command cmds=command col=column cols=column
conf=configuration config=configuration configs=configuration conn=connection creds=credential cred=credential
ctx=context cust=customer db=database dbs=database dept=department dest=destination del=delete desc=description
descr=description dev=development diff=difference dir=directory dirs=directory dist=distribution dm=direct+message
dms=direct+message doc=document docs=document documentation=document dup=duplicate elem=element env=environment
envs=environment err=error eval=evaluate exe=executable exec=execute expr=expression ext=extension fav=favorite
favs=favorite func=function funcs=function fn=function geo=geographic gen=generate hw=hardware hist=history
i18n=internationalization img=image imgs=image impl=implementation info=information infos=information init=initialize
int=integer inv=invoice iter=iteration js=javascript k8s=kubernetes kube=kubernetes kb=knowledge+base lang=language
langs=language lat=latitude len=length lib=library libs=library lib=library lng=longitude loc=location lon=longitude
ls=list max=maximum md=markdown med=medical mem=memory mgmt=management mgr=manager min=minimum misc=miscellaneous
mkdir=make+directory mr=merge+request mrs=merge+request msg=message msgs=message mv=move nav=navigate
navigation=navigate net=network ns=namespace num=number nums=number obj=object objs=object op=operation ops=operation
org=company orgs=company organization=company organisation=company organizations=company organisations=company
os=operating+system param=parameter params=parameter perf=performance perm=permission perms=permission
pg=postgresql postgres=postgresql pic=picture pics=picture pkg=package pkgs=package pos=position pr=pull+request
prs=pull+request pref=preference prefs=preference prev=previous proc=process prod=production prop=property
props=property pt=point pwd=password passwd=password py=python qty=quantity rec=record recs=record ref=reference
refs=reference reg=register relations=relation relationship=relation relationships=relation regex=regular+expression regexp=regular+expression repo=repository repos=repository
req=request res=resource resp=response rm=remove sched=schedule sec=security seq=sequence sess=session spec=specification
specs=specification sql=sql src=source stat=statistic stats=statistic std=standard sub=subscription subs=subscription
svc=service svcs=service sw=software sync=synchronize sys=system tbl=table tel=telephone temp=temporary tmp=temporary
term=term tmpl=template trans=transaction tx=transaction txn=transaction txns=transaction txs=transaction txt=text
ui=interface usr=user util=utility utils=utility val=value vals=value var=variable vars=variable ver=version
vid=video vids=video vm=virtual+machine vms=virtual+machine vol=volume wf=workflow xfer=transfer`)

// similar are groups of words that say nearly the same of a tool. A word of a query finds the
// others of its groups with less weight.
var similar = groupsOf(`
create add new make insert register generate open write
delete remove erase drop destroy clear discard trash forget uninstall purge
list show enumerate browse display
get fetch retrieve read obtain view load show
find search lookup query locate discover
update edit modify change alter set patch rename replace adjust
run execute start launch invoke trigger begin call
retry rerun restart repeat
stop cancel abort terminate kill end halt
send post publish submit deliver notify
reply respond answer comment
assign give allocate
approve accept confirm
allow permit authorize
reject decline refuse deny
merge combine join
copy duplicate clone fork
undo revert rollback restore
move transfer relocate
check verify validate test inspect audit
save store write persist
upload attach import
download export
share invite
mute silence
open navigate visit browse go
calculate compute evaluate
convert transform translate
summarize summary overview digest
analyze analysis inspect examine explain
schedule plan book reserve
label tag
comment note remark
user person member people teammate colleague employee
manager boss supervisor
ticket issue bug
task todo
record row entry item
column field property attribute
schema structure field
size space disk
folder directory
page website webpage site url link
internet web online
direction route drive navigate
coordinate latitude longitude geocode location
address place location
elevation height altitude
event meeting appointment calendar
free available availability
sprint iteration cycle
price cost rate quote
payment charge pay
invoice bill
customer client
company business
order purchase buy
share stock equity
hotel accommodation lodging
flight plane airline
news headline article
paper article publication study literature
image picture photo photograph
screenshot picture capture
video movie film
song track music
voice speech audio
chart graph plot diagram
spreadsheet sheet workbook excel
file document
error exception failure fault crash
log output trace
slow performance speed latency
deploy release rollout
version release revision
repository project
history activity past
difference compare diff change
email mail inbox
message chat dm text
call phone telephone
permission access right role grant
password secret credential
login sign authenticate
alert alarm notification monitor
metric measurement statistic
reaction react emoji
weather forecast temperature rain
cryptocurrency crypto coin token
watch monitor observe track follow subscribe
upsert insert update store
prove verify confirm
top frequent popular common trending
computer machine host system
warm hot cold temperature
archive hide
favorite star bookmark like
question ask answer
balance amount money
payroll salary wage
leave vacation holiday absence
transit train bus
walking walk foot pedestrian
bicycle bike cycling
restaurant food cafe
mobile phone device android
click tap press touch
swipe scroll
type enter input fill
window tab
reload refresh
server instance machine droplet
domain dns hostname
certificate ssl tls
backup snapshot
restore recover
webhook callback
key token credential
vector embedding
presentation slide powerpoint
transcript subtitle caption
lead prospect opportunity deal
employee staff
vote poll
subscriber follower audience
newsletter broadcast campaign
thread conversation discussion
status state
priority urgent
due deadline
process program
`)

// action is the kind of action of a tool, or of a query.
type action uint8

const (
	anyAction action = iota
	reads
	creates
	updates
	deletes
	runs
	stops
)

// actions are words that say which action is meant. In a query, a question is one for a tool
// that reads.
var actions = func() map[string]action {
	m := map[string]action{}
	for a, words := range map[action]string{
		reads: `list get show find search read fetch query view describe display count lookup look retrieve browse
			check inspect enumerate explain analyze download
			which what who whose why when where is are was were did does will`,
		creates: `create add new make insert register generate write post send upload publish draw build put attach reply save
			append compose`,
		updates: `update edit modify change alter set patch rename replace move assign configure resize toggle`,
		deletes: `delete remove erase drop destroy clear discard trash forget uninstall purge unset unassign detach`,
		runs:    `run execute start launch invoke trigger retry rerun restart begin call play`,
		stops:   `stop cancel abort terminate kill end halt close quit`,
	} {
		for _, w := range strings.Fields(words) {
			m[w] = a
		}
	}
	return m
}()

// actionOf returns the action that the first word of this kind says.
func actionOf(text string) (a action) {
	split(text, func(word string, kind wordKind) {
		if a == anyAction && kind != whole {
			a = actions[word]
		}
	})
	return a
}

func setOf(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

func pairsOf(pairs string) map[string][]string {
	m := map[string][]string{}
	for _, pair := range strings.Fields(pairs) {
		short, long, _ := strings.Cut(pair, "=")
		m[short] = strings.Split(long, "+")
	}
	return m
}

// groupsOf returns the stems of the words that share a line with a word, by its stem.
func groupsOf(groups string) map[string][]string {
	var st stemmer
	m := map[string][]string{}
	for group := range strings.Lines(groups) {
		words := strings.Fields(group)
		for _, a := range words {
			for _, b := range words {
				if stem, other := st.stem(a), st.stem(b); stem != other && !slices.Contains(m[stem], other) {
					m[stem] = append(m[stem], other)
				}
			}
		}
	}
	return m
}

// stemmer reduces words to the stem that their forms share. It is not safe for concurrent use.
type stemmer struct{ env *snowballstem.Env }

// stem returns the stem of a word in lower case. Words that are not English letters stay.
func (s *stemmer) stem(word string) string {
	if len(word) < 3 {
		return word
	}
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	if s.env == nil {
		s.env = snowballstem.NewEnv("")
	}
	s.env.SetCurrent(word)
	english.Stem(s.env)
	return s.env.Current()
}

// terms calls yield for the terms of a text: the stems of its words and of the words that
// abbreviations stand for. Stop words are left out. In prose, the parts of a word such as
// MongoDB are no abbreviations.
func (s *stemmer) terms(text string, prose bool, yield func(term string, kind wordKind)) {
	split(text, func(word string, kind wordKind) {
		long := abbreviations[word]
		if long == nil || prose && kind == part {
			if !stopWords[word] {
				yield(s.stem(word), kind)
			}
			return
		}
		for _, w := range long {
			yield(s.stem(w), kind)
		}
	})
}
