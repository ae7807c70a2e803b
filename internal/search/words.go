package search

import (
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
allow allows allowed allowing available eg e.g ie use used uses using given want wants wanted need needs needed like
able let lets help helps helpful tool tools would`)

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
refs=reference reg=register regex=regular+expression regexp=regular+expression repo=repository repos=repository
req=request res=resource resp=response rm=remove sched=schedule sec=security seq=sequence sess=session spec=specification
specs=specification sql=sql src=source stat=statistic stats=statistic std=standard sub=subscription subs=subscription
svc=service svcs=service sw=software sync=synchronize sys=system tbl=table tel=telephone temp=temporary tmp=temporary
term=term tmpl=template trans=transaction tx=transaction txn=transaction txns=transaction txs=transaction txt=text
ui=interface usr=user util=utility utils=utility val=value vals=value var=variable vars=variable ver=version
vid=video vids=video vm=virtual+machine vms=virtual+machine vol=volume wf=workflow xfer=transfer`)

// similar are groups of words that say nearly the same of a tool. A word of a query finds the
// others of its groups with less weight.
var similar = groupsOf(`
create add new make insert register generate
delete remove erase drop destroy clear discard trash
list show enumerate browse display
get fetch retrieve read obtain view load lookup
find search lookup query locate discover
update edit modify change alter set patch rename
run execute start launch invoke trigger
stop cancel abort terminate kill end halt
send post publish submit deliver
copy duplicate clone
move transfer relocate
check verify validate test inspect
save store write persist
upload attach import
download export
open navigate visit browse
calculate compute evaluate
convert transform translate
compare difference
summarize summary overview digest
analyze analysis inspect examine
schedule book plan appointment reserve
image picture photo photograph
email mail
folder directory
page website webpage site url link
error exception failure fault
user person member people
ticket issue bug
task todo
event meeting calendar appointment
company business
price cost quote rate
stock share equity
message chat dm
comment reply note
file document
weather forecast temperature
location place address
direction route
movie film
song track music
picture screenshot
customer client
payment charge
phone telephone call
version release
log trace
permission access grant role
cryptocurrency crypto coin token`)

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
				if a != b {
					m[st.stem(a)] = append(m[st.stem(a)], st.stem(b))
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
// abbreviations stand for. Stop words are left out.
func (s *stemmer) terms(text string, yield func(term string, whole bool)) {
	split(text, func(word string, whole bool) {
		if long := abbreviations[word]; long != nil {
			for _, w := range long {
				yield(s.stem(w), whole)
			}
		} else if !stopWords[word] {
			yield(s.stem(word), whole)
		}
	})
}
